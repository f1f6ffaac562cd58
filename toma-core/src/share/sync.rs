//! What the queue is made of. The model check in `tests/fixtures/share-model` puts others in its place,
//! which run every interleaving.

pub(super) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
pub(super) use std::sync::{Mutex, MutexGuard, OnceLock};

/// Slots there is room for before more are allocated.
pub(super) const FIRST_SLOTS: usize = 8;
