//! Sizes that fit into the segments of CUDA's allocator.
//!
//! # Why
//!
//! A device is full when no segment is left for a request, and not when tensors fill it. So if a size fits by its live
//! bytes, its requests are run through a replay of the allocator, which starts from the current segments.

use std::sync::PoisonError;

use toma_plan::caching::{CachingAllocator, DeviceStats, OutOfMemory};

use super::prediction::{Prediction, wide};
use super::room::Room;
use crate::error::Error;
use crate::ffi;

/// The search ends with a size that is within one part in so many of the largest.
const CLOSE: usize = 64;

/// Marks a question about pieces after others, in the place of the output's count.
const REST: u64 = 2;

impl Prediction {
    /// The bytes that CUDA's allocator reserves for the step with `size` items, beyond its current segments. On other
    /// devices, the bytes that the step [needs](Self::needs_bytes).
    pub fn reserves_bytes(&self, size: usize) -> u64 {
        let all = Room { usable_bytes: u64::MAX, free_bytes: u64::MAX };
        let now = self.is_of_cuda().then(|| self.now(all).ok()).flatten();
        let Some(mut allocator) = now else { return self.needs_bytes(size) };
        let before = allocator.stats().reserved.current;
        let served = self.growth.replay(self.place(), wide(size), 1, &mut allocator);
        served.map_or(u64::MAX, |()| allocator.stats().reserved.peak - before)
    }

    /// Figures of CUDA's allocator for one piece of a size, if it has reserved nothing before. `None` on other devices,
    /// and for sizes beyond all memory.
    pub(super) fn fresh(&self, size: usize) -> Option<DeviceStats> {
        let mut allocator = CachingAllocator::new(u64::MAX);
        let replay = || self.growth.replay(self.place(), wide(size), 1, &mut allocator);
        let is_served = self.is_of_cuda().then(replay)?.is_ok();
        is_served.then(|| allocator.stats())
    }

    /// The largest size for `items`, or for one piece, whose requests are served by an allocator that has no segments.
    /// By their live bytes, sizes up to `most` fit.
    pub(super) fn served(&self, most: usize, room: Room, items: Option<usize>) -> Option<usize> {
        self.served_by(
            most,
            items,
            || Ok(CachingAllocator::new(room.capacity(0))),
            |size, allocator| self.growth.replay(self.place(), wide(size), pieces(items, size), allocator),
        )
    }

    /// The largest size by the segments that the device's allocator has now. The first piece's output may be there in
    /// addition.
    pub(super) fn served_now(
        &self,
        most: usize,
        room: Room,
        items: Option<usize>,
        has_output: bool,
    ) -> Option<usize> {
        let pieces = |size| pieces(items, size) + u64::from(has_output);
        let find = || {
            self.served_by(
                most,
                items,
                || self.now(room),
                |size, allocator| self.growth.replay(self.place(), wide(size), pieces(size), allocator),
            )
        };
        let count = items.map_or(u64::MAX, wide);
        self.once([wide(most), count, u64::from(has_output), room.usable_bytes, room.free_bytes], find)
    }

    /// The largest size for `left` items after other pieces have run.
    pub(super) fn served_rest(&self, most: usize, room: Room, left: usize) -> Option<usize> {
        let find = || {
            self.served_by(
                most,
                Some(left),
                || self.now(room),
                |size, allocator| {
                    self.growth.replay_further(self.place(), wide(size), pieces(Some(left), size), allocator)
                },
            )
        };
        self.once([wide(most), wide(left), REST, room.usable_bytes, room.free_bytes], find)
    }

    /// Returns the last answer if the question, and the allocated and reserved bytes, are the same. They are once calls
    /// settle.
    fn once(&self, question: [u64; 5], find: impl FnOnce() -> Option<usize>) -> Option<usize> {
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

    /// The current state of the device's allocator, with room beyond the bytes in use.
    fn now(&self, room: Room) -> Result<CachingAllocator, Error> {
        let capacity_bytes = room.capacity(ffi::device_stats(self.id)?.allocated_bytes);
        Ok(CachingAllocator::resumed(capacity_bytes, ffi::device_segments(self.id)?))
    }

    /// The largest size that is served, of those up to `by_lines`, and of recorded ones up to `items`. On a device without
    /// such an allocator that is `by_lines`.
    fn served_by(
        &self,
        by_lines: usize,
        items: Option<usize>,
        allocator: impl FnOnce() -> Result<CachingAllocator, Error>,
        replay: impl Fn(usize, &mut CachingAllocator) -> Result<(), OutOfMemory>,
    ) -> Option<usize> {
        if !self.is_of_cuda() {
            return Some(by_lines);
        }
        let Ok(allocator) = allocator() else { return Some(by_lines) };
        let is_served = |size: usize| replay(size, &mut allocator.clone()).is_ok();
        let served = largest(by_lines, is_served);
        // A line may predict more bytes than a recorded size took.
        let is_larger = |size: &usize| {
            served.is_none_or(|served| served < *size) && items.is_none_or(|items| *size <= items)
        };
        let recorded = self.recorded().filter(is_larger).filter(|size| is_served(*size)).max();
        recorded.or(served)
    }

    /// Number of confirmations: scratch bytes of CUDA's kernels show only at their size.
    pub(super) fn rounds(&self) -> usize {
        if self.is_of_cuda() { 7 } else { 1 }
    }

    /// The size to confirm at if `size` is predicted; `None` if no larger one would be found. Below a recorded size that
    /// does not fit, lines may be too high, because a kernel may begin to take memory at any size.
    pub(super) fn next(&self, size: usize) -> Option<usize> {
        if self.recorded().all(|known| known != size) {
            return Some(size);
        }
        let above = self.recorded().filter(|known| *known > size).min().filter(|_| self.is_of_cuda())?;
        (above - size > (above / 16).max(1)).then(|| size.midpoint(above))
    }

    fn recorded(&self) -> impl Iterator<Item = usize> {
        self.sizes().map(|size| usize::try_from(size).unwrap_or(usize::MAX))
    }

    fn is_of_cuda(&self) -> bool {
        self.place().as_device().is_some_and(|(kind, _)| kind == "cuda")
    }
}

/// Number of pieces of a size.
fn pieces(items: Option<usize>, size: usize) -> u64 {
    items.map_or(1, |items| wide(items.div_ceil(size)))
}

/// Searches the largest size up to `most` that is served.
fn largest(most: usize, is_served: impl Fn(usize) -> bool) -> Option<usize> {
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
