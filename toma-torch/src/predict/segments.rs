//! Sizes that fit into the segments of CUDA's allocator.
//!
//! # Why
//!
//! A device is full when no segment is left for a request, and not when tensors fill it. So if a size fits by its live
//! bytes, its requests are run through a replay of the allocator, which starts from the current segments.

use std::sync::PoisonError;

use toma_plan::caching::{CachingAllocator, DeviceStats, OutOfMemory, Settings};

use super::prediction::{Prediction, wide};
use crate::error::Error;
use crate::ffi;

/// The search ends with a size that is within one part in so many of the largest.
const CLOSE: usize = 64;

impl Prediction {
    /// The bytes that CUDA's allocator reserves for the step with `size` items, beyond its current segments. On other
    /// devices, the bytes that the step [needs](Self::needs_bytes).
    pub fn reserves_bytes(&self, size: usize) -> u64 {
        let now = self.is_of_cuda().then(|| self.now(u64::MAX).ok()).flatten();
        let Some(mut allocator) = now else { return self.needs_bytes(size) };
        let before = allocator.stats().reserved.current;
        let served = self.growth.replay(self.place(), wide(size), 1, &mut allocator);
        served.map_or(u64::MAX, |()| allocator.stats().reserved.peak - before)
    }

    /// Figures of CUDA's allocator for one piece of a size, if it has reserved nothing before. `None` on other devices,
    /// and for sizes beyond all memory.
    pub(super) fn fresh(&self, size: usize) -> Option<DeviceStats> {
        let mut allocator = CachingAllocator::new(Settings::new(u64::MAX));
        let replay = || self.growth.replay(self.place(), wide(size), 1, &mut allocator);
        let is_served = self.is_of_cuda().then(replay)?.is_ok();
        is_served.then(|| allocator.stats())
    }

    /// The largest size up to `most` whose requests are served by an allocator that has so many bytes and no segments.
    pub(super) fn served(&self, most: usize, bytes: u64, pieces: impl Fn(usize) -> usize) -> Option<usize> {
        self.served_by(
            most,
            || Ok(CachingAllocator::new(Settings::new(bytes))),
            |size, allocator| self.growth.replay(self.place(), wide(size), wide(pieces(size)), allocator),
        )
    }

    /// The largest size if the device's allocator may use so many bytes beyond those in use now.
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

    /// The largest size for `left` items after other pieces have run.
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

    /// Returns the last answer if the question, and the allocated and reserved bytes, are the same. They are once calls
    /// settle.
    fn once(&self, question: [u64; 4], find: impl FnOnce() -> Option<usize>) -> Option<usize> {
        if !self.is_of_cuda() {
            return find();
        }
        let stats = ffi::device_stats(self.id).ok();
        let bytes = stats.map(|stats| [stats.allocated_bytes, stats.reserved_bytes]);
        let last = || self.last_served.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = last().filter(|(known, _)| *known == (question, bytes)) {
            return answer;
        }
        let answer = find();
        *last() = Some(((question, bytes), answer));
        answer
    }

    /// The current state of the device's allocator, with so many bytes beyond those in use.
    fn now(&self, usable_bytes: u64) -> Result<CachingAllocator, Error> {
        let allocated_bytes = ffi::device_stats(self.id)?.allocated_bytes;
        let settings = Settings::new(allocated_bytes.saturating_add(usable_bytes));
        Ok(CachingAllocator::resumed(settings, ffi::device_segments(self.id)?))
    }

    /// Returns `most` on a device without such an allocator.
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
        // A size may fit into the rests of segments where smaller ones do not, so the largest sizes are tried in turn.
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

    /// Number of confirmations at the predicted size: scratch bytes of CUDA's kernels show only there.
    pub(super) fn rounds(&self) -> usize {
        if self.is_of_cuda() { 3 } else { 1 }
    }

    fn is_of_cuda(&self) -> bool {
        self.place().as_device().is_some_and(|(kind, _)| kind == "cuda")
    }
}
