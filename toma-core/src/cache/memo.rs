//! Lookups of one thread: the warm path of every cache.
//!
//! Each thread has a table, indexed by key and valid for one generation of one store. It stores absences too, so
//! that a call site that never failed is as fast as one that settled.
//!
//! # Why
//!
//! Two threads that read one entry of a shared map share the cache line of its lock. A lookup then takes 181 ns
//! instead of 16. So each thread keeps its own lookups. Only learning, which is rare, makes threads look again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use super::Remembered;
use super::doubts::RecallDoubts;
use super::key::Key;
use super::levels::Levels;

/// Number of keys that a thread keeps; beyond it the memo starts anew.
const MAX_KEYS: usize = 1024;

/// One key of a store, as this thread has looked it up.
pub(super) struct MemoEntry {
    generation: u64,
    pub(super) levels: Levels,
    doubts: RecallDoubts,
}

impl MemoEntry {
    /// Returns the evidence for a call with this free memory that may use up to `cap`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "copied once, and by registers")]
    pub(super) fn known(&self, free: Option<u64>, cap: usize) -> Option<Remembered> {
        self.doubts.counted(self.levels.at(free), cap)
    }
}

type Memo = HashMap<(u64, Key), MemoEntry, BuildHasherDefault<Spread>>;

thread_local! {
    static MEMO: RefCell<Memo> = RefCell::default();
}

/// Calls `act` with the entry of this thread, if it is of this generation.
///
/// `None` also at thread exit, when the memo is gone: the caller then looks into the store itself.
#[inline]
pub(super) fn with<R>(
    store: u64,
    generation: u64,
    key: &Key,
    act: impl FnOnce(&MemoEntry) -> R,
) -> Option<R> {
    MEMO.try_with(|memo| {
        let memo = memo.borrow();
        let entry = memo.get(&(store, *key)).filter(|entry| entry.generation == generation)?;
        Some(act(entry))
    })
    .ok()
    .flatten()
}

/// Lets `change` edit the levels of this thread, if they are of this generation.
pub(super) fn change(store: u64, generation: u64, key: &Key, change: impl FnOnce(&mut Levels)) {
    let _ = MEMO.try_with(|memo| {
        let mut memo = memo.borrow_mut();
        let entry = memo.get_mut(&(store, *key)).filter(|entry| entry.generation == generation);
        entry.map(|entry| change(&mut entry.levels))
    });
}

/// Stores a lookup; doubts about the same size continue.
pub(super) fn keep(store: u64, generation: u64, key: &Key, levels: Levels) {
    let _ = MEMO.try_with(|memo| {
        let mut memo = memo.borrow_mut();
        if memo.len() >= MAX_KEYS {
            memo.clear();
        }
        match memo.entry((store, *key)) {
            Entry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                (entry.generation, entry.levels) = (generation, levels);
            }
            Entry::Vacant(place) => {
                place.insert(MemoEntry { generation, levels, doubts: RecallDoubts::default() });
            }
        }
    });
}

/// Passes on the one word that a key has already spread evenly.
#[derive(Clone, Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are hashed as words")
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}
