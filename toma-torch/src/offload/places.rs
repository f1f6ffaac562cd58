//! Counters of evicted storages.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number and bytes of evicted storages. A storage may end on any thread.
#[derive(Debug, Default)]
pub(crate) struct Places {
    away: AtomicU64,
    away_bytes: AtomicU64,
}

impl Places {
    pub(crate) fn is_away(&self, bytes: u64) {
        self.away.fetch_add(1, Ordering::Relaxed);
        self.away_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn is_back(&self, bytes: u64) {
        self.away.fetch_sub(1, Ordering::Relaxed);
        self.away_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn away(&self) -> u64 {
        self.away.load(Ordering::Relaxed)
    }

    pub(crate) fn away_bytes(&self) -> u64 {
        self.away_bytes.load(Ordering::Relaxed)
    }
}
