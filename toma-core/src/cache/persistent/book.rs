//! All entries of a file, in memory.

use std::collections::BTreeMap;
use std::collections::btree_map;

use super::call::Call;
use super::evidence::{Evidence, Observation};
use super::hint::{on_other_memory, on_same_memory};
use super::marks::Moment;
use crate::cache::Remembered;

/// Entries a file holds; beyond it the one least recently learned or used goes.
pub(super) const MAX_ENTRIES: usize = 2048;

/// What is known about calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Book {
    records: BTreeMap<Call, Record>,
}

/// What is known about one call on one memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// When a program last started with it; `None` when none did since it was learned.
    pub(super) used: Option<Moment>,
    pub(super) evidence: Evidence,
}

impl Record {
    fn merge(&mut self, other: &Self) {
        self.used = self.used.max(other.used);
        self.evidence.merge(&other.evidence);
    }

    /// When it was last learned or used.
    pub(super) fn last(&self) -> Moment {
        self.used.max(self.evidence.newest()).unwrap_or_default()
    }
}

impl Book {
    /// Takes over what `other` knows. Commutative, associative and idempotent, as the merge of
    /// evidence is; so it bounds nothing: [`Self::keep_newest`] does, and only when a file is written.
    pub(super) fn merge(&mut self, other: &Self) {
        for (call, record) in &other.records {
            self.record(call).merge(record);
        }
    }

    pub(super) fn learn(&mut self, call: &Call, observation: Observation) {
        self.record(call).evidence.learn(observation);
    }

    pub(super) fn touch(&mut self, call: &Call, now: Moment) {
        let used = &mut self.record(call).used;
        *used = (*used).max(Some(now));
    }

    /// Not `entry`, which would copy the call each time.
    fn record(&mut self, call: &Call) -> &mut Record {
        if !self.records.contains_key(call) {
            self.records.insert(call.clone(), Record::default());
        }
        self.records.get_mut(call).unwrap_or_else(|| unreachable!("it was just put there"))
    }

    /// Keeps at most `count` records, those last learned or used, and none without evidence.
    pub(super) fn keep_newest(&mut self, count: usize) {
        self.records.retain(|_, record| !record.evidence.is_empty());
        if self.records.len() <= count {
            return;
        }
        let mut newest: Vec<_> = std::mem::take(&mut self.records).into_iter().collect();
        newest.sort_by(|(a, a_record), (b, b_record)| (b_record.last(), b).cmp(&(a_record.last(), a)));
        newest.truncate(count);
        self.records = newest.into_iter().collect();
    }

    pub(super) fn get(&self, call: &Call) -> Option<&Record> {
        self.records.get(call)
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// What is known of the call on memories of any size.
    pub(super) fn on_every_memory(&self, call: &Call) -> Self {
        let all = call.with_total(None)..=call.with_total(Some(u64::MAX));
        let records = self.records.range(all).map(|(call, record)| (call.clone(), record.clone()));
        Self { records: records.collect() }
    }

    /// Where a call with `free` bytes free may start.
    pub(super) fn hint(&self, call: &Call, free: Option<u64>) -> Option<Remembered> {
        let here = self.get(call).and_then(|record| record.evidence.says(free)).map(on_same_memory);
        here.or_else(|| self.hint_from_other_memory(call))
    }

    /// From the memory that is next smaller in all, or else next larger; free bytes there say nothing
    /// about here, so of several levels the lowest counts.
    fn hint_from_other_memory(&self, call: &Call) -> Option<Remembered> {
        let to = call.total_bytes?;
        let from = |total| self.get(&call.with_total(Some(total)))?.evidence.says(None);
        let others = self.on_every_memory(call);
        let totals = others.records.keys().filter_map(|call| call.total_bytes);
        let (smaller, larger): (Vec<u64>, Vec<u64>) = totals.partition(|&total| total < to);
        let nearest_first = smaller.into_iter().rev().chain(larger);
        let mut known = nearest_first.filter_map(|total| Some((total, from(total)?)));
        known.next().map(|(total, remembered)| on_other_memory(remembered, total, to))
    }

    /// Where a call may start for all that calls of the same name, key and device know, wherever their
    /// lines stand.
    pub(super) fn hint_by_name(&self, call: &Call, free: Option<u64>) -> Option<Remembered> {
        let namesakes = self.records.keys().filter(|other| other.is_namesake(call));
        let hints = namesakes.filter_map(|other| self.hint(&other.with_total(call.total_bytes), free));
        self.hint(call, free).or_else(|| hints.into_iter().next())
    }
}

impl FromIterator<(Call, Record)> for Book {
    /// Two records of one call are merged.
    fn from_iter<I: IntoIterator<Item = (Call, Record)>>(records: I) -> Self {
        let mut book = Self::default();
        for (call, record) in records {
            book.record(&call).merge(&record);
        }
        book
    }
}

impl<'a> IntoIterator for &'a Book {
    type Item = (&'a Call, &'a Record);
    type IntoIter = btree_map::Iter<'a, Call, Record>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter()
    }
}
