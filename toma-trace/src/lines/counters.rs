//! Numbers that one thread counts and any thread may read, without a lock.
//!
//! # Why
//!
//! A counter has one writer. A block that another thread frees is subtracted by that thread, in its own account. So the
//! hook of an allocator waits for nothing. Single parts may be below zero, but their sum is not.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number with one writer, so a plain load and store change it without synchronization of processors.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds with wrapping, because parts of one sum may be counted by several threads, some below zero.
    pub(super) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, less: u64) {
        self.0.store(self.get().wrapping_sub(less), Ordering::Relaxed);
    }

    pub(super) fn raise(&self, to: u64) {
        if to > self.get() {
            self.0.store(to, Ordering::Relaxed);
        }
    }
}

/// A vector that grows when an element beyond its end is requested, and whose elements never move.
///
/// Bucket `b` holds `2^b` elements, so one thread may read while another lets the vector grow.
#[derive(Debug)]
pub(super) struct Growing<T>([OnceLock<Box<[T]>>; 33]);

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; 33])
    }
}

impl<T: Default> Growing<T> {
    pub(super) fn at(&self, index: u32) -> &T {
        let place = index as usize + 1;
        let bucket = place.ilog2();
        let filled = || (0..1_usize << bucket).map(|_| T::default()).collect();
        &self.0[bucket as usize].get_or_init(filled)[place - (1 << bucket)]
    }

    /// Grows until the vector has an element of this index.
    pub(super) fn make_room(&self, index: u32) {
        let buckets = (index + 1).ilog2();
        for bucket in 0..=buckets {
            let _ = self.at((1 << bucket) - 1);
        }
    }

    /// Returns every element with its index.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let buckets = (0_u32..).zip(&self.0).filter_map(|(bucket, elements)| Some((bucket, elements.get()?)));
        buckets.flat_map(|(bucket, elements)| ((1 << bucket) - 1..).zip(elements))
    }
}
