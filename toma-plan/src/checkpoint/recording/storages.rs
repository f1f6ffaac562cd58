//! Sums of bytes in which shared memory counts once.

use std::collections::HashSet;

#[derive(Clone, Debug, Default)]
pub(super) struct Storages {
    seen: HashSet<usize>,
    pub(super) bytes: u64,
}

impl Storages {
    /// Storages to be left out of a sum.
    pub(super) fn without_bytes(storages: impl Iterator<Item = usize>) -> Self {
        Self { seen: storages.collect(), bytes: 0 }
    }

    /// Returns true if the storage is new.
    pub(super) fn add(&mut self, storage: usize, bytes: u64) -> bool {
        let is_new = self.seen.insert(storage);
        self.bytes += if is_new { bytes } else { 0 };
        is_new
    }

    /// Adds pairs of a storage and its bytes; returns the bytes of all.
    pub(super) fn with(mut self, more: impl Iterator<Item = (usize, u64)>) -> u64 {
        for (storage, bytes) in more {
            self.add(storage, bytes);
        }
        self.bytes
    }
}
