//! What one thread has looked up: the warm path of every cache.
//!
//! A table per thread, found by key and valid for one generation of one store. It holds absence
//! too, so that a call site that never failed is as fast as one that settled.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::Remembered;
use super::key::Key;
use super::levels::Levels;

/// Keys a thread keeps in mind; beyond it the memo starts anew.
const MAX_KEYS: usize = 1024;

/// What the memo says about a key.
#[derive(Debug)]
pub(super) enum Known {
    /// There is nothing to choose: no entry, or one.
    Plain(Option<Remembered>),
    /// The entries of several levels of free memory.
    Many(Box<Levels>),
}

struct Slot {
    generation: u64,
    known: Known,
}

type Slots = HashMap<(u64, Key), Slot, BuildHasherDefault<Spread>>;

thread_local! {
    static MEMO: RefCell<Slots> = RefCell::default();
}

/// Asks `use_known` with what this thread knows, if it is of this generation.
///
/// `None` also at thread exit, when the memo is gone: the caller then looks into the store itself.
#[inline]
pub(super) fn with<R>(
    store: u64,
    generation: u64,
    key: &Key,
    use_known: impl FnOnce(&Known) -> R,
) -> Option<R> {
    MEMO.try_with(|memo| {
        let memo = memo.borrow();
        let slot = memo.get(&(store, *key)).filter(|slot| slot.generation == generation)?;
        Some(use_known(&slot.known))
    })
    .ok()
    .flatten()
}

/// Lets `change` have what this thread knows, if it is of this generation.
pub(super) fn change(store: u64, generation: u64, key: &Key, change: impl FnOnce(&mut Known)) {
    let _ = MEMO.try_with(|memo| {
        let mut memo = memo.borrow_mut();
        let slot = memo.get_mut(&(store, *key)).filter(|slot| slot.generation == generation);
        slot.map(|slot| change(&mut slot.known))
    });
}

pub(super) fn keep(store: u64, generation: u64, key: &Key, known: Known) {
    let _ = MEMO.try_with(|memo| {
        let mut memo = memo.borrow_mut();
        if memo.len() >= MAX_KEYS {
            memo.clear();
        }
        memo.insert((store, *key), Slot { generation, known });
    });
}

/// Passes on the one word that a key has already spread evenly.
#[derive(Default)]
struct Spread(u64);

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
