//! Blocks that were on a device when it had no memory for another one, kept until the failure has unwound.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::moments::Moments;
use super::names::NameId;
use super::owner::Owner;
use crate::lines::LineId;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Living {
    /// Address of the block.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// The owner that [`allocated`](super::allocated) returned for the block.
    pub owner: Owner,
}

/// An allocation that failed. Filling it allocates nothing.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) thread: u32,
    pub(super) device: u32,
    pub(super) requested: u64,
    pub(super) operator: NameId,
    pub(super) line: Option<LineId>,
    /// Moment of the failure.
    pub(super) at: u32,
    pub(super) now: Moments,
    /// Live blocks of the device, as many as there was room for.
    pub(super) blocks: Vec<Living>,
    /// Bytes of the other live blocks.
    pub(super) others: u64,
    is_reported: bool,
}

/// Space for failures, allocated before memory runs out.
#[derive(Debug)]
pub(super) struct Failures(Mutex<Slots>);

#[derive(Debug)]
struct Slots {
    free: Vec<Failure>,
    /// Failures, the newest last.
    kept: Vec<Failure>,
}

/// Number of failures that are kept. If more threads fail at the same time, the oldest failures are dropped.
const FAILURES: usize = 4;
const BLOCKS: usize = 1 << 14;

impl Slots {
    fn oldest(&mut self) -> Option<Failure> {
        (!self.kept.is_empty()).then(|| self.kept.remove(0))
    }
}

impl Failures {
    pub(super) fn new() -> Self {
        let empty = |_| Failure {
            thread: 0,
            device: 0,
            requested: 0,
            operator: NameId::NONE,
            line: None,
            at: 0,
            now: Moments::default(),
            blocks: Vec::with_capacity(BLOCKS),
            others: 0,
            is_reported: false,
        };
        let free = (0..FAILURES).map(empty).collect();
        Self(Mutex::new(Slots { free, kept: Vec::with_capacity(FAILURES) }))
    }

    /// Keeps a failure that `fill` describes. Skips it if another thread holds the lock, instead of waiting.
    pub(super) fn keep(&self, thread: u32, fill: impl FnOnce(&mut Failure)) {
        let Ok(mut slots) = self.0.try_lock() else { return };
        let old = slots.kept.iter().position(|kept| kept.thread == thread);
        let old = old.map(|old| slots.kept.remove(old)).or_else(|| slots.free.pop());
        // All failures may be lent at this moment.
        let Some(mut failure) = old.or_else(|| slots.oldest()) else { return };
        failure.blocks.clear();
        (failure.thread, failure.others, failure.is_reported) = (thread, 0, false);
        fill(&mut failure);
        slots.kept.push(failure);
    }

    /// Drops the failure of a thread, which is over because the thread got memory.
    pub(super) fn forget(&self, thread: u32) {
        if let Ok(mut slots) = self.0.try_lock()
            && let Some(old) = slots.kept.iter().position(|kept| kept.thread == thread)
        {
            let failure = slots.kept.remove(old);
            slots.free.push(failure);
        }
    }

    /// Lends the last failure of a thread to `read`, or else the last of all threads since a moment, which
    /// then becomes the thread's own.
    pub(super) fn read<R>(&self, thread: u32, since: u32, read: impl FnOnce(&Failure) -> R) -> Option<R> {
        let mut slots = self.slots();
        let of_thread = slots.kept.iter().rposition(|kept| kept.thread == thread);
        let last = of_thread.or_else(|| slots.kept.iter().rposition(|kept| kept.at >= since))?;
        let failure = Failure { thread, is_reported: true, ..slots.kept.remove(last) };
        drop(slots);
        let read = read(&failure);
        self.slots().kept.push(failure);
        Some(read)
    }

    /// Lends the last failure that was never lent to `read`.
    pub(super) fn read_unreported<R>(&self, read: impl FnOnce(&Failure) -> R) -> Option<R> {
        let thread = self.slots().kept.iter().rev().find(|kept| !kept.is_reported)?.thread;
        self.read(thread, 0, read)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failure {
    pub(super) fn add(&mut self, block: Living) {
        if self.blocks.len() < self.blocks.capacity() {
            self.blocks.push(block);
        } else {
            self.others += block.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(failures: &Failures, thread: u32) -> Option<u64> {
        let requested = failures.read(thread, 0, |failure| failure.requested);
        failures.forget(thread);
        requested
    }

    #[test]
    fn a_thread_gets_its_own_failure_or_the_last() {
        let failures = Failures::new();
        for thread in 0..3 {
            failures.keep(thread, |failure| failure.requested = u64::from(thread) * 10);
        }
        failures.keep(0, |failure| failure.requested = 5);
        assert_eq!(requested(&failures, 1), Some(10));
        assert_eq!(requested(&failures, 9), Some(5));
        assert_eq!(failures.read(9, 1, |failure| failure.requested), None);
        failures.forget(2);
        assert_eq!(requested(&failures, 9), None);
    }

    #[test]
    fn a_failure_while_all_the_room_is_lent_is_not_kept() {
        fn lend(failures: &Failures, thread: u32) {
            failures.read(thread, 0, |_| match thread.checked_sub(1) {
                Some(next) => lend(failures, next),
                None => failures.keep(9, |failure| failure.requested = 7),
            });
        }
        let failures = Failures::new();
        let threads = u32::try_from(FAILURES).unwrap();
        (0..threads).for_each(|thread| failures.keep(thread, |failure| failure.requested = 1));
        lend(&failures, threads - 1);
        let kept: Vec<_> = (0..threads).map(|thread| requested(&failures, thread)).collect();
        assert_eq!(kept, [Some(1); FAILURES]);
        assert_eq!(requested(&failures, 9), None);
    }

    #[test]
    fn more_threads_and_blocks_than_there_is_room_for_lose_the_oldest_and_the_rest() {
        let failures = Failures::new();
        let block = Living { address: 8, bytes: 3, owner: Owner(0) };
        for thread in 0..2 + u32::try_from(FAILURES).unwrap() {
            failures.keep(thread, |failure| {
                failure.requested = 1;
                (0..BLOCKS + 2).for_each(|_| failure.add(block));
            });
        }
        let counted = |thread| failures.read(thread, 0, |failure| (failure.blocks.len(), failure.others));
        assert_eq!([counted(5), counted(9)], [Some((BLOCKS, 6)); 2]);
        let rest = std::iter::from_fn(|| requested(&failures, 9)).count();
        assert_eq!(rest, FAILURES);
    }
}
