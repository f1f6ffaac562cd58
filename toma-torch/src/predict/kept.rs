//! Predictions that are kept from call to call.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Beyond so many the one made longest ago goes.
const MOST: usize = 256;

/// Predictions by what they are of.
#[derive(Debug)]
pub(super) struct Predictions<K, V>(Mutex<VecDeque<(K, V)>>);

impl<K: PartialEq, V: Clone> Predictions<K, V> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    pub(super) fn of(&self, key: &K) -> Option<V> {
        let predictions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        predictions.iter().find(|(known, _)| known == key).map(|(_, prediction)| prediction.clone())
    }

    /// Nothing is locked while a prediction is made: two threads may make the same, and one of them stays.
    pub(super) fn keep(&self, key: K, prediction: V) {
        let mut predictions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if predictions.iter().any(|(known, _)| *known == key) {
            return;
        }
        if predictions.len() == MOST {
            predictions.pop_front();
        }
        predictions.push_back((key, prediction));
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Predictions};

    #[test]
    fn the_one_made_longest_ago_goes_and_the_first_of_two_stays() {
        let predictions = Predictions::new();
        for key in 0..=MOST {
            predictions.keep(key, key);
        }
        predictions.keep(7, 0);
        assert_eq!([0, 1, 7, MOST].map(|key| predictions.of(&key)), [None, Some(1), Some(7), Some(MOST)]);
    }
}
