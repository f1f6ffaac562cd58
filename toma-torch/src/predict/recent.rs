//! Cache for values from earlier calls.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Most values; beyond, the one added first is removed.
const MOST: usize = 256;

/// Values by their keys.
#[derive(Debug)]
pub(crate) struct Recent<K, V>(Mutex<VecDeque<(K, V)>>);

impl<K: PartialEq, V: Clone> Recent<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    pub(crate) fn of(&self, key: &K) -> Option<V> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    }

    /// Adds a value unless its key has one. Nothing is locked while values are made, so two threads may make the same
    /// one.
    pub(crate) fn keep(&self, key: K, value: V) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if values.iter().any(|(known, _)| *known == key) {
            return;
        }
        if values.len() == MOST {
            values.pop_front();
        }
        values.push_back((key, value));
    }

    /// Replaces the value of a key.
    pub(crate) fn renew(&self, key: K, value: V) {
        self.retain(|known, _| *known != key);
        self.keep(key, value);
    }

    pub(crate) fn retain(&self, keeps: impl Fn(&K, &V) -> bool) {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.retain(|(key, value)| keeps(key, value));
    }

    /// Returns the value with the lowest rank, of those that have a rank.
    pub(crate) fn nearest<R: Ord>(&self, rank: impl Fn(&K, &V) -> Option<R>) -> Option<(R, V)> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ranked = values.iter().filter_map(|(key, value)| Some((rank(key, value)?, value)));
        let (rank, value) = ranked.min_by(|(one, _), (other, _)| one.cmp(other))?;
        Some((rank, value.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Recent};

    #[test]
    fn the_one_made_longest_ago_goes_and_the_first_of_two_stays() {
        let predictions = Recent::new();
        for key in 0..=MOST {
            predictions.keep(key, key);
        }
        predictions.keep(7, 0);
        predictions.renew(1, 5);
        assert_eq!(predictions.nearest(|key, _| (key % 2 == 1).then_some(key % 100)), Some((1, 101)));
        assert_eq!([0, 1, 7, MOST].map(|key| predictions.of(&key)), [None, Some(5), Some(7), Some(MOST)]);
    }
}
