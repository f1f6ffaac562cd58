//! Number and bytes of the storages that are evicted now, for the status of a manager.

use std::sync::atomic::{AtomicU64, Ordering};

/// Atomic, because a storage may end on any thread.
#[derive(Debug, Default)]
pub(crate) struct EvictedTally {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl EvictedTally {
    pub(crate) fn add(&self, bytes: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, bytes: u64) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
