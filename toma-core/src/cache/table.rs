//! The table behind the caches, on the cold path.
//!
//! Its maps have shards, so that short threads, which look up every key anew, do not wait for each other.
//!
//! # Why
//!
//! Entries are numbered as they are learned. Beyond the bound, one thread removes those with the lowest sixteenth
//! of the numbers. A time stamp of the last use would be written by every warm call.

use std::cmp::Reverse;
use std::hash::BuildHasherDefault;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use dashmap::DashMap;

use super::doubts::RecallDoubts;
use super::entry::Entry;
use super::key::{Key, Place};
use super::levels::Levels;
use super::memo::Spread;
use super::{Callers, Remembered};

/// Number of entries that a cache holds; beyond it those learned longest ago are removed.
const MAX_ENTRIES: usize = 4096;

/// The oldest 1/`PART` of the numbers is removed at once, so that the search for the oldest is rare.
const PART: u64 = 16;

#[derive(Debug, Default)]
pub(super) struct Table {
    learned: DashMap<Key, Learned, BuildHasherDefault<Spread>>,
    pub(super) seeds: DashMap<String, Remembered>,
    /// Number of times that anything was learned.
    count: AtomicU64,
    evicting: Mutex<()>,
}

/// Evidence under one key.
#[derive(Debug)]
pub(super) struct Learned {
    name: String,
    callers: Callers,
    levels: Levels,
    /// Position in the order of learning.
    number: u64,
    /// Doubts of threads that are too short to count on their own.
    doubts: Mutex<RecallDoubts>,
}

impl Table {
    /// Adds evidence under `key`, starting from `nothing` if there is none yet.
    pub(super) fn learn(&self, key: &Key, nothing: Learned, remembered: Remembered) {
        let mut learned = self.learned.entry(*key).or_insert(nothing);
        learned.number = self.count.fetch_add(1, Relaxed);
        learned.levels.learn(remembered);
        drop(learned);
        if self.learned.len() > MAX_ENTRIES {
            self.evict();
        }
    }

    /// One thread makes room for all. It allocates nothing, because memory may have just run out.
    #[cold]
    fn evict(&self) {
        let Ok(_evicting) = self.evicting.try_lock() else { return };
        while self.learned.len() > MAX_ENTRIES {
            let oldest = self.learned.iter().map(|learned| learned.number).min().unwrap_or_default();
            let age = self.count.load(Relaxed).saturating_sub(oldest);
            let first_kept = oldest + age / PART;
            self.learned.retain(|_, learned| learned.number >= first_kept);
        }
    }

    pub(super) fn clear(&self) {
        self.learned.clear();
        self.seeds.clear();
    }

    pub(super) fn levels(&self, key: &Key) -> Option<Levels> {
        self.learned.get(key).map(|learned| learned.levels.clone())
    }

    /// Counts a call that starts from `known`, unless another thread is counting one for this key.
    pub(super) fn counted(&self, key: &Key, known: Option<&Remembered>, cap: usize) -> Option<Remembered> {
        match self.learned.get(key).as_ref().map(|learned| learned.doubts.try_lock()) {
            Some(Ok(doubts)) => doubts.counted(known, cap),
            _ => known.cloned(),
        }
    }

    /// Returns the entries, the one learned last first.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let mut learned: Vec<_> =
            self.learned.iter().map(|learned| (learned.number, learned.entries(*learned.key()))).collect();
        learned.sort_by_key(|&(number, _)| Reverse(number));
        learned.into_iter().flat_map(|(_, entries)| entries).collect()
    }

    pub(super) fn seeded(&self, place: &Place<'_>) -> Option<Remembered> {
        self.seeds.get(&place.name().to_string()).map(|seed| seed.clone())
    }
}

impl Learned {
    pub(super) fn nothing(name: String, callers: Callers) -> Self {
        Self { name, callers, levels: Levels::default(), number: 0, doubts: Mutex::default() }
    }

    /// Returns one entry for each level of free memory.
    fn entries(&self, key: Key) -> Vec<Entry> {
        let entry = |remembered: &Remembered| Entry {
            name: self.name.clone(),
            key,
            callers: self.callers.clone(),
            remembered: remembered.clone(),
        };
        self.levels.iter().map(entry).collect()
    }
}
