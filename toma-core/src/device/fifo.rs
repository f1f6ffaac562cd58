//! Queue of waiting entries in the order of arrival, as plain functions: no clock, no lock, no thread.

use std::collections::VecDeque;
use std::time::Instant;

use super::sleepers::SleeperId;

/// Waiting entries, each with the value that it wants.
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

    /// Returns the first entry.
    pub(super) fn head(&self) -> Option<(SleeperId, T)> {
        self.0.front().map(|entry| (entry.key, entry.wants))
    }

    /// Returns the bound of the first entry.
    pub(super) fn head_until(&self) -> Option<Instant> {
        self.0.front().and_then(|entry| entry.until)
    }

    /// Adds an entry at the tail. Returns the number of entries ahead.
    pub(super) fn push(&mut self, key: SleeperId, wants: T, until: Option<Instant>) -> usize {
        self.0.push_back(Waiter { key, wants, until });
        self.0.len() - 1
    }

    /// Returns the number of entries ahead of this one, if it waits.
    pub(super) fn place(&self, key: SleeperId) -> Option<usize> {
        self.0.iter().position(|entry| entry.key == key)
    }

    /// Returns the earliest bound of this entry and those ahead.
    pub(super) fn first_bound(&self, place: usize) -> Option<Instant> {
        self.0.range(..=place).filter_map(|entry| entry.until).min()
    }

    /// Removes an entry. True if it waited.
    pub(super) fn remove(&mut self, key: SleeperId) -> bool {
        self.place(key).and_then(|place| self.0.remove(place)).is_some()
    }

    /// Removes the entries past their bound, except `spared`. Returns their keys.
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
