//! Maps nodes of the autograd graph to the lines that made them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::event::Node;
use crate::lines::LineId;

/// Sequence numbers of one thread's operators by line, each from where the line became current.
#[derive(Debug, Default)]
pub(super) struct Makers(Mutex<Vec<(Node, LineId)>>);

/// Limit on entries; those of older operators are dropped.
const MOST: usize = 1 << 16;

impl Makers {
    /// Records that a line is current, and that the next operator will have this number.
    pub(super) fn becomes_current(&self, line: LineId, next: Node) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match lines.last_mut() {
            // The line before ran no operator.
            Some(last) if last.0 == next => last.1 = line,
            Some(last) if last.1 == line => {}
            _ => lines.push((next, line)),
        }
        if lines.len() == MOST {
            lines.drain(..MOST / 2);
        }
    }

    /// Returns the line of a number; `None` also while the thread is recording.
    pub(super) fn of(&self, node: Node) -> Option<LineId> {
        let lines = match self.0.try_lock() {
            Ok(lines) => lines,
            Err(TryLockError::Poisoned(lines)) => lines.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Searched from the end, because a backward looks up the latest nodes first.
        let is_before = |back: &usize| lines.len().checked_sub(*back).is_none_or(|at| lines[at].0 <= node);
        let back = (0..usize::BITS).map(|power| 1 << power).find(is_before)?;
        let from = lines.len().saturating_sub(back);
        let behind = from + lines[from..].partition_point(|(first, _)| *first <= node);
        Some(lines[behind.checked_sub(1)?].1)
    }
}

impl Node {
    /// True if the operators of both ran on one thread.
    pub(super) fn is_of_thread(self, other: Self) -> bool {
        self.0 >> Self::THREAD == other.0 >> Self::THREAD
    }
}

/// Number of threads beyond which those that have ended are dropped: a later backward finds no lines for their nodes.
const THREADS: usize = 256;

/// The makers of all threads, by the thread bits of their nodes.
#[derive(Debug, Default)]
pub(super) struct AllMakers(Mutex<HashMap<u64, Arc<Makers>>>);

impl AllMakers {
    pub(super) fn of_thread(&self, node: Node) -> Arc<Makers> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= THREADS {
            // A thread that records holds its own.
            all.retain(|_, makers| Arc::strong_count(makers) > 1);
        }
        Arc::clone(all.entry(node.0 >> Node::THREAD).or_default())
    }

    /// Returns the line that made a node, if that takes no waiting.
    pub(super) fn line(&self, node: Node) -> Option<LineId> {
        let all = self.0.try_lock().ok()?;
        let of_thread = all.get(&(node.0 >> Node::THREAD))?;
        of_thread.of(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::packed::lower;

    #[test]
    fn a_node_is_of_the_line_that_was_current() {
        let all = AllMakers::default();
        let node = |number: u64| Node((3 << Node::THREAD) + number);
        let makers = all.of_thread(node(0));
        for (line, next) in [(1, 10), (2, 10), (3, 14), (4, 20)] {
            makers.becomes_current(LineId(line), node(next));
        }
        let lines: Vec<_> = [9_u64, 10, 13, 14, 19, 20, 99].map(|number| all.line(node(number))).to_vec();
        let expected = [None, Some(2), Some(2), Some(3), Some(3), Some(4), Some(4)];
        assert_eq!(lines, expected.map(|line| line.map(LineId)));
        assert_eq!(all.line(Node((4 << Node::THREAD) + 12)), None);
    }

    #[test]
    fn every_number_is_found_from_the_end() {
        for count in [1_u64, 2, 3, 7, 8, 100] {
            let makers = Makers::default();
            for number in 0..count {
                makers.becomes_current(LineId(lower(number)), Node(10 * number + 5));
            }
            for node in 0..10 * count + 20 {
                let expected = node.checked_sub(5).map(|past| LineId(lower((past / 10).min(count - 1))));
                assert_eq!(makers.of(Node(node)), expected, "{node} of {count}");
            }
        }
    }

    #[test]
    fn threads_that_have_ended_are_dropped_once_there_are_many() {
        let all = AllMakers::default();
        let node = |thread: u64| Node(thread << Node::THREAD);
        let lives = all.of_thread(node(0));
        lives.becomes_current(LineId(7), node(0));
        for thread in 1..1000 {
            all.of_thread(node(thread));
        }
        assert!(all.0.lock().unwrap().len() <= THREADS);
        assert_eq!(all.line(node(0)), Some(LineId(7)));
    }

    #[test]
    fn as_many_are_kept_as_there_is_room_for() {
        let makers = Makers::default();
        let last = 3 * MOST as u64;
        for number in 0..last {
            makers.becomes_current(LineId(lower(number)), Node(number));
        }
        assert_eq!(makers.of(Node(last)), Some(LineId(lower(last) - 1)));
        assert!(makers.0.lock().unwrap().len() < MOST);
    }
}
