//! All entries of a file, in memory.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::evidence::{Observation, Observations};
use super::hint::with_head_room;
use super::key::CallKey;
use super::marks::Moment;
use crate::cache::Remembered;

/// Entries a file holds; beyond it the one least recently learned or used goes.
pub(super) const MAX_ENTRIES: usize = 2048;

/// What is known about one call on one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallRecord {
    /// When a program last started with it; `None` when none did since it was learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) used: Option<Moment>,
    pub(super) evidence: Observations,
}

impl CallRecord {
    pub(super) fn merge(&mut self, other: &Self) {
        self.used = self.used.max(other.used);
        self.evidence.merge(&other.evidence);
    }

    /// When it was last learned or used.
    pub(super) fn last(&self) -> Moment {
        self.used.max(self.evidence.newest()).unwrap_or_default()
    }

    /// Where a call with `free` bytes free may start.
    pub(super) fn hint(&self, free: Option<u64>) -> Option<Remembered> {
        self.evidence.says(free).map(with_head_room)
    }
}

/// What is known about calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Book {
    pub(super) histories: BTreeMap<CallKey, CallRecord>,
}

impl Book {
    /// Takes over what `other` knows. Commutative, associative and idempotent, as the merge of
    /// evidence is; so it bounds nothing: [`Self::keep_newest`] does, and only when a file is written.
    pub(super) fn merge(&mut self, other: &Self) {
        for (key, history) in &other.histories {
            self.entry(key).merge(history);
        }
    }

    pub(super) fn learn(&mut self, key: &CallKey, observation: Observation) {
        self.entry(key).evidence.learn(observation);
    }

    pub(super) fn touch(&mut self, key: &CallKey, now: Moment) {
        let used = &mut self.entry(key).used;
        *used = (*used).max(Some(now));
    }

    fn entry(&mut self, key: &CallKey) -> &mut CallRecord {
        self.histories.entry(key.clone()).or_default()
    }

    /// Keeps at most `count` histories, those last learned or used, and none without evidence.
    pub(super) fn keep_newest(&mut self, count: usize) {
        self.histories.retain(|_, history| !history.evidence.is_empty());
        if self.histories.len() <= count {
            return;
        }
        let mut newest: Vec<_> = std::mem::take(&mut self.histories).into_iter().collect();
        newest.sort_by(|(a, a_history), (b, b_history)| (b_history.last(), b).cmp(&(a_history.last(), a)));
        newest.truncate(count);
        self.histories = newest.into_iter().collect();
    }

    /// Where a call may start for all that calls of the same name, key and memory know, wherever their
    /// lines stand.
    pub(super) fn hint_by_name(&self, key: &CallKey, free: Option<u64>) -> Option<Remembered> {
        let namesakes = self.histories.iter().filter(|(other, _)| other.is_namesake(key));
        let mut histories = self.histories.get(key).into_iter().chain(namesakes.map(|(_, history)| history));
        histories.find_map(|history| history.hint(free))
    }
}

impl FromIterator<(CallKey, CallRecord)> for Book {
    /// Two histories of one call are merged.
    fn from_iter<I: IntoIterator<Item = (CallKey, CallRecord)>>(histories: I) -> Self {
        let mut book = Self::default();
        histories.into_iter().for_each(|(key, history)| book.entry(&key).merge(&history));
        book
    }
}
