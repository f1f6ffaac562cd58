//! Entries that wait in the order in which they came, as plain functions: no clock, no lock, no thread.

use std::collections::VecDeque;
use std::time::Instant;

use super::sleepers::SleeperId;

/// Entries and what they want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fifo<T>(VecDeque<Waiter<T>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiter<T> {
    key: SleeperId,
    wants: T,
    until: Option<Instant>,
}

impl<T: Copy> Fifo<T> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first entry.
    pub(super) fn head(&self) -> Option<(SleeperId, T)> {
        self.0.front().map(|entry| (entry.key, entry.wants))
    }

    /// The bound of the first entry.
    pub(super) fn head_until(&self) -> Option<Instant> {
        self.0.front().and_then(|entry| entry.until)
    }

    /// Adds an entry at the tail. Returns how many are ahead.
    pub(super) fn push(&mut self, key: SleeperId, wants: T, until: Option<Instant>) -> usize {
        self.0.push_back(Waiter { key, wants, until });
        self.0.len() - 1
    }

    /// How many entries are ahead of this one, if it waits.
    pub(super) fn place(&self, key: SleeperId) -> Option<usize> {
        self.0.iter().position(|entry| entry.key == key)
    }

    /// When the first bound of this entry and of those ahead has passed.
    pub(super) fn first_bound(&self, place: usize) -> Option<Instant> {
        self.0.range(..=place).filter_map(|entry| entry.until).min()
    }

    /// Takes an entry out, if it waits.
    pub(super) fn remove(&mut self, key: SleeperId) -> bool {
        self.place(key).and_then(|place| self.0.remove(place)).is_some()
    }

    /// Takes out the entries past their bound, but not `spared`. Returns their keys.
    pub(super) fn skip(&mut self, now: Instant, spared: Option<SleeperId>) -> Vec<SleeperId> {
        let mut skipped = Vec::new();
        self.0.retain(|entry| {
            let stays = Some(entry.key) == spared || entry.until.is_none_or(|until| now < until);
            if !stays {
                skipped.push(entry.key);
            }
            stays
        });
        skipped
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
