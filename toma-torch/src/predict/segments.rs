//! What fits into the segments of CUDA's allocator.
//!
//! # Why
//!
//! A device is full when no segment is left for a request, and not when tensors fill it. So where lines say that a size
//! fits, its requests are played to a replay of the allocator, which goes on from the segments there are.

use toma_plan::caching::{CachingAllocator, DeviceStats, OutOfMemory, Settings};

use super::prediction::{Prediction, wide};
use crate::error::Error;
use crate::ffi;

/// The search ends with a size that is within one part in so many of the largest.
const CLOSE: usize = 64;

impl Prediction {
    /// The bytes that CUDA's allocator reserves for the step with `size` items, beyond the segments that it has now.
    /// Elsewhere, what the step [needs](Self::needs_bytes).
    pub fn reserves_bytes(&self, size: usize) -> u64 {
        let now = self.is_of_cuda().then(|| self.now(u64::MAX).ok()).flatten();
        let Some(mut allocator) = now else { return self.needs_bytes(size) };
        let before = allocator.stats().reserved.current;
        let served = self.growth.replay(self.place(), wide(size), 1, &mut allocator);
        served.map_or(u64::MAX, |()| allocator.stats().reserved.peak - before)
    }

    /// Bytes that CUDA's allocator counts for one piece of a size, where it has reserved nothing before. `None` elsewhere, and
    /// for sizes beyond all memory.
    pub(super) fn fresh(&self, size: usize) -> Option<DeviceStats> {
        let mut allocator = CachingAllocator::new(Settings::new(u64::MAX));
        let replay = || self.growth.replay(self.place(), wide(size), 1, &mut allocator);
        let is_served = self.is_of_cuda().then(replay)?.is_ok();
        is_served.then(|| allocator.stats())
    }

    /// The largest size up to `most` whose requests are served, where an allocator has so many bytes and no segments.
    pub(super) fn served(&self, most: usize, bytes: u64, pieces: impl Fn(usize) -> usize) -> Option<usize> {
        self.served_by(
            most,
            || Ok(CachingAllocator::new(Settings::new(bytes))),
            |size, allocator| self.growth.replay(self.place(), wide(size), wide(pieces(size)), allocator),
        )
    }

    /// The same where the device's allocator may have so many bytes beyond those in use now.
    pub(super) fn served_now(
        &self,
        most: usize,
        usable_bytes: u64,
        pieces: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        let find = || {
            self.served_by(
                most,
                || self.now(usable_bytes),
                |size, allocator| self.growth.replay(self.place(), wide(size), wide(pieces(size)), allocator),
            )
        };
        self.once([wide(most), wide(pieces(most)), 0, usable_bytes], find)
    }

    /// The same for so many items that are left where pieces have run before.
    pub(super) fn served_rest(&self, most: usize, usable_bytes: u64, left: usize) -> Option<usize> {
        let find = || {
            self.served_by(
                most,
                || self.now(usable_bytes),
                |size, allocator| {
                    self.growth.replay_further(self.place(), wide(size), wide(left.div_ceil(size)), allocator)
                },
            )
        };
        self.once([wide(most), 0, wide(left), usable_bytes], find)
    }

    /// The answer found last, where as many bytes are allocated and reserved now. Calls that settle find the same each time.
    fn once(&self, question: [u64; 4], find: impl FnOnce() -> Option<usize>) -> Option<usize> {
        if !self.is_of_cuda() {
            return find();
        }
        let stats = ffi::device_stats(self.id).ok();
        let bytes = stats.map(|stats| [stats.allocated_bytes, stats.reserved_bytes]);
        self.last_served.answer((question, bytes), find)
    }

    /// The device's allocator as it stands, with so many bytes beyond those in use.
    fn now(&self, usable_bytes: u64) -> Result<CachingAllocator, Error> {
        let allocated_bytes = ffi::device_stats(self.id)?.allocated_bytes;
        let settings = Settings::new(allocated_bytes.saturating_add(usable_bytes));
        Ok(CachingAllocator::resumed(settings, ffi::device_segments(self.id)?))
    }

    /// Any size where there is no such allocator.
    fn served_by(
        &self,
        most: usize,
        allocator: impl FnOnce() -> Result<CachingAllocator, Error>,
        replay: impl Fn(usize, &mut CachingAllocator) -> Result<(), OutOfMemory>,
    ) -> Option<usize> {
        if !self.is_of_cuda() {
            return Some(most);
        }
        let Ok(allocator) = allocator() else { return Some(most) };
        let is_served = |size: usize| replay(size, &mut allocator.clone()).is_ok();
        // One size may fit whose segments hold others' rests, where smaller ones do not: the first ones are tried in turn.
        let step = (most / CLOSE).max(1);
        let mut near = (1..=most).rev().step_by(step).take(CLOSE / 4);
        let least = most.saturating_sub(step * (CLOSE / 4 - 1)).max(1);
        if let Some(served) = near.find(|size| is_served(*size)) {
            return Some(served);
        }
        let (mut served, mut refused) = (0, least);
        while refused - served > 1.max(refused / CLOSE) || served == 0 && refused > 1 {
            let middle = served.midpoint(refused).max(1);
            if is_served(middle) { served = middle } else { refused = middle }
        }
        (served > 0).then_some(served)
    }

    /// How often it is confirmed at the size that it says: of CUDA's kernels the scratch shows only there.
    pub(super) fn rounds(&self) -> usize {
        if self.is_of_cuda() { 3 } else { 1 }
    }

    fn is_of_cuda(&self) -> bool {
        self.place().as_device().is_some_and(|(kind, _)| kind == "cuda")
    }
}
