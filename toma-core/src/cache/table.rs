//! The table behind the caches: the cold path.
//!
//! A map in shards is read when a thread first looks for a key, so that short threads do not wait for each
//! other. What changes it takes one lock: learning is rare, and the order of learning bounds the map.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use dashmap::DashMap;

use super::doubts::Doubts;
use super::entry::Entry;
use super::key::{Key, Place};
use super::levels::Levels;
use super::memo::{Lookup, Spread};
use super::{Callers, Remembered};

/// Entries a cache holds; beyond it the one learned longest ago goes.
const MAX_ENTRIES: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Table {
    learned: DashMap<Key, Learned, BuildHasherDefault<Spread>>,
    seeds: RwLock<HashMap<String, Remembered>>,
    order: Mutex<Order>,
}

/// What is known under one key.
#[derive(Debug)]
pub(super) struct Learned {
    name: String,
    callers: Callers,
    levels: Levels,
    /// Its number in the order of learning.
    number: u64,
    /// What threads make of it that are too short to count on their own.
    doubts: Mutex<Doubts>,
}

/// The keys, by when they were last learned.
#[derive(Debug, Default)]
pub(super) struct Order {
    next: u64,
    keys: BTreeMap<u64, Key>,
}

impl Table {
    /// Adds to what is known under `key`, of which there may be nothing yet.
    pub(super) fn learn(&self, order: &mut Order, key: &Key, nothing: Learned, remembered: Remembered) {
        let mut learned = self.learned.entry(*key).or_insert(nothing);
        order.keys.remove(&learned.number);
        learned.number = order.next;
        learned.levels.learn(remembered);
        drop(learned);
        order.keys.insert(order.next, *key);
        order.next += 1;
        if order.keys.len() > MAX_ENTRIES {
            let oldest = order.keys.pop_first();
            oldest.map(|(_, key)| self.learned.remove(&key));
        }
    }

    pub(super) fn clear(&self, order: &mut Order) {
        self.learned.clear();
        order.keys.clear();
        self.seeds().clear();
    }

    /// What is known under `key`; of one level also what a call starts from that may use up to `cap`.
    pub(super) fn look_up(&self, key: &Key, cap: usize) -> Option<(Lookup, Option<Remembered>)> {
        let learned = self.learned.get(key)?;
        if !learned.levels.is_plain() {
            return Some((Lookup::Many(Box::new(learned.levels.unshared())), None));
        }
        let known = learned.levels.first();
        let own = known.as_ref().map(Remembered::unshared);
        Some((Lookup::Plain(own), learned.counted(known, cap)))
    }

    pub(super) fn counted(&self, key: &Key, known: Option<Remembered>, cap: usize) -> Option<Remembered> {
        match self.learned.get(key) {
            Some(learned) => learned.counted(known, cap),
            None => known,
        }
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let order = self.order();
        let learned = order.keys.values().rev().filter_map(|key| self.learned.get(key));
        learned.flat_map(|learned| learned.entries(*learned.key())).collect()
    }

    pub(super) fn seeded(&self, place: &Place<'_>) -> Option<Remembered> {
        let seeds = self.seeds.read().unwrap_or_else(PoisonError::into_inner);
        if seeds.is_empty() { None } else { seeds.get(&place.name().to_string()).cloned() }
    }

    /// Nothing here is ever half-changed, so a lock poisoned by a panic is as good as new.
    pub(super) fn seeds(&self) -> RwLockWriteGuard<'_, HashMap<String, Remembered>> {
        self.seeds.write().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_poisoned(&self) -> bool {
        self.order.is_poisoned()
    }

    pub(super) fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learned {
    pub(super) fn nothing(name: String, callers: Callers) -> Self {
        Self { name, callers, levels: Levels::default(), number: u64::MAX, doubts: Mutex::default() }
    }

    /// A doubt that another thread is at is left to it.
    fn counted(&self, known: Option<Remembered>, cap: usize) -> Option<Remembered> {
        match self.doubts.try_lock() {
            Ok(doubts) => doubts.counted(known, cap),
            Err(_) => known,
        }
    }

    /// One for each level of free memory.
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
