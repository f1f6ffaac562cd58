//! What one thread has looked up: the warm path of every cache.
//!
//! A table of a few slots per thread, found by key and valid for one generation of one store. It
//! holds absence too, so that a call site that never failed is as fast as one that settled.

use std::cell::RefCell;

use super::key::Key;
use super::levels::Levels;

const SLOTS: usize = 64;

/// What the memo says about a key.
pub(super) type Known = Option<Levels>;

#[derive(Clone, Copy)]
struct Slot {
    store: u64,
    generation: u64,
    key: Key,
    known: Known,
}

thread_local! {
    // On the heap, because thread-local storage is taken from the thread's own stack.
    static MEMO: RefCell<Box<[Option<Slot>]>> = RefCell::new(vec![None; SLOTS].into_boxed_slice());
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
        let slot = memo[slot_of(key)].as_ref()?;
        let valid = slot.store == store && slot.generation == generation && slot.key == *key;
        valid.then(|| use_known(&slot.known))
    })
    .ok()
    .flatten()
}

pub(super) fn keep(store: u64, generation: u64, key: &Key, known: &Known) {
    let _ = MEMO.try_with(|memo| {
        memo.borrow_mut()[slot_of(key)] = Some(Slot { store, generation, key: *key, known: *known });
    });
}

#[inline]
fn slot_of(key: &Key) -> usize {
    usize::try_from(key.spread() >> 58).unwrap_or(0) % SLOTS
}
