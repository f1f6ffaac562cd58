//! The last events of all threads, in one order, without a lock.
//!
//! # Why
//!
//! A recording that has ended keeps its ring until its last idle thread releases it. Freeing the ring while such
//! threads refer to it would take a lock at each event.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// Content of an event, except for its position in the order.
pub(super) type Words = [u64; 3];

/// A ring of events: a new event replaces the oldest.
pub(super) struct Ring {
    slots: Box<[Slot]>,
    next: AtomicU64,
}

#[derive(Default)]
struct Slot {
    /// The event's position in the order, plus 1; 0 while the event is written.
    stamp: AtomicU64,
    words: [AtomicU64; 3],
}

impl Ring {
    /// Creates a ring of at least one event.
    pub(super) fn new(events: usize) -> Self {
        Self { slots: (0..events.max(1)).map(|_| Slot::default()).collect(), next: AtomicU64::new(0) }
    }

    /// Adds an event. Returns its position in the order.
    pub(super) fn push(&self, words: Words) -> u64 {
        let position = self.next.fetch_add(1, Relaxed);
        let slot = self.slot(position);
        slot.stamp.store(0, Relaxed);
        fence(Release);
        for (to, word) in slot.words.iter().zip(words) {
            to.store(word, Relaxed);
        }
        slot.stamp.store(position + 1, Release);
        position
    }

    /// Returns the number of events so far.
    pub(super) fn count(&self) -> u64 {
        self.next.load(Acquire)
    }

    /// Returns the position of the oldest event that is still there.
    pub(super) fn oldest(&self) -> u64 {
        self.count().saturating_sub(self.slots.len() as u64)
    }

    /// Returns an event, unless a later one has replaced it or it is being written.
    pub(super) fn get(&self, position: u64) -> Option<Words> {
        let slot = self.slot(position);
        let is_it = || slot.stamp.load(Acquire) == position + 1;
        if !is_it() {
            return None;
        }
        let words = slot.words.each_ref().map(|word| word.load(Relaxed));
        fence(Acquire);
        is_it().then_some(words)
    }

    fn slot(&self, position: u64) -> &Slot {
        let slots = self.slots.len() as u64;
        &self.slots[usize::try_from(position % slots).unwrap_or_default()]
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("slots", &self.slots.len())
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_stay_in_their_order() {
        let ring = Ring::new(4);
        for event in 0..10 {
            assert_eq!(ring.push([event, event * event, 7]), event);
        }
        assert_eq!((ring.oldest(), ring.count()), (6, 10));
        assert_eq!(ring.get(5), None);
        assert_eq!(ring.get(8), Some([8, 64, 7]));
        assert_eq!(ring.get(10), None);
    }

    #[test]
    fn an_event_that_is_read_while_threads_write_is_whole() {
        let ring = Ring::new(8);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let ring = &ring;
                scope.spawn(move || {
                    for event in 0..20_000 {
                        ring.push([thread, event, thread ^ event]);
                    }
                });
            }
            for _ in 0..20_000 {
                let words = ring.get(ring.count().saturating_sub(1));
                assert!(words.is_none_or(|[thread, event, both]| both == thread ^ event));
            }
        });
        assert_eq!(ring.count(), 40_000);
    }
}
