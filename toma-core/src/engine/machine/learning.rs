//! How a machine learns sizes: which step settles, which attempts enter the measurements, and which failures are due
//! to a single item.
//!
//! # Why
//!
//! A packed piece is evidence for the step only if it fills more than half of it. Two neighboring pieces together
//! fill more than one step, so smaller ones are tails or stand next to heavy items.
//!
//! The measurements of a packed piece are scaled to the step. Otherwise a measuring policy would follow small pieces
//! downward. The largest cost that ran settles, because possibly no piece has filled the step.

use std::mem;

use super::learned::{Search, Snapshot};
use super::{Cut, Failed, Machine, Took};
use crate::classify::Class;
use crate::engine::evidence::{self, FailedAt};
use crate::engine::meter::Measured;
use crate::observe::{Answer, Shortfall};
use crate::policy::figures::{bytes, share, whole_bytes};
use crate::policy::{Measurements, Policy, Sample};

impl Machine {
    /// The step to store in the size cache, once it has succeeded.
    #[inline]
    pub(crate) fn settled(&self) -> Option<usize> {
        self.learning.settled
    }

    /// Forgets the settled size, because it has failed after all. A total failure must not pin later calls to it.
    pub(crate) fn forget(&mut self) {
        self.learning.settled = None;
    }

    #[inline]
    pub(super) fn works(&mut self, size: usize) {
        if self.packing.is_some() {
            return self.packed_works(size);
        }
        self.bounds.succeeded(size);
        let is_new = size > self.learning.best || (self.learning.moved && self.fills(size));
        if is_new && (size == self.step || self.extent.even) {
            // Even pieces need not fill a step, and the later ones may be one item smaller.
            let settled = self.learning.settled.filter(|_| self.extent.even);
            let most = settled.map_or(size, |settled| settled.max(size));
            (self.learning.best, self.learning.settled) = (most, Some(most));
        }
    }

    /// Records a success where pieces are of any size up to the step.
    #[inline(never)]
    fn packed_works(&mut self, size: usize) {
        let (step, fills) = (self.step, self.fills(size));
        let Some(packing) = &mut self.packing else { return };
        (packing.ran, packing.fits) = (packing.ran.max(size), packing.fits.max(Some(size)));
        if !fills {
            return;
        }
        self.bounds.succeeded(size);
        if self.learning.moved || size > self.learning.best {
            let at_this_step = packing.settled_at.replace(step) == Some(step);
            let settled = self.learning.settled.filter(|_| at_this_step);
            let most = settled.map_or(size, |settled| settled.max(size));
            (self.learning.best, self.learning.settled) = (most, Some(most));
        }
    }

    /// True if a piece of this size is evidence for the step, where pieces need not fill it.
    ///
    /// Even pieces fill more than half of the step, unless there is only one. Packed pieces seldom fill a step, but
    /// two neighbors together fill more than one. So a piece that fills less than half, such as a short tail, is
    /// little evidence, and one beyond the step was a single item.
    fn fills(&self, size: usize) -> bool {
        size <= self.step && size > self.step / 2
    }

    /// Records that the size of the piece is too large.
    pub(super) fn fails(&mut self, failed: &Failed) {
        let size = self.size();
        self.begin_search();
        if let (Some(measurements), Some(measured)) = (&mut self.measurements, &failed.took.measured) {
            evidence::keep_ceiling(measurements, size, self.bounds);
            let at = FailedAt::of(size, self.bounds);
            evidence::failed(measurements, at, measured);
        }
        self.bounds.failed(size);
        self.forget();
    }

    fn begin_search(&mut self) {
        let &mut Self { step, bounds, measurements, learning, .. } = self;
        if let Some(packing) = self.packing.as_mut().filter(|packing| packing.search.is_none()) {
            let before = Snapshot { step, bounds, measurements, learning, settled_at: packing.settled_at };
            packing.search = Some(Search { end: self.cut.end, before });
        }
    }

    /// True while a single item may be the cause of the last failures.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.packing.as_ref().is_some_and(|packing| packing.search.is_some())
    }

    /// Ends a piece where the failed one ended, during a search: only the items of the failed piece show the cause.
    pub(super) fn within_search(&self, cut: Cut) -> Cut {
        let search = self.packing.as_ref().and_then(|packing| packing.search.as_ref());
        match search.filter(|search| search.end < cut.end) {
            Some(&Search { end, .. }) => Cut { end, size: self.extent.size(self.position..end) },
            None => cut,
        }
    }

    /// Ends a search when all items of its piece are done: the piece was too large.
    pub(super) fn end_search(&mut self) {
        let position = self.position;
        if let Some(packing) = &mut self.packing {
            packing.search.take_if(|search| search.end <= position);
        }
    }

    /// True if the piece is a single item that the call can do without: it costs more than the floor, or a piece as
    /// heavy has succeeded.
    #[inline]
    pub(super) fn is_single_item(&self) -> bool {
        let Some(packing) = &self.packing else { return false };
        let size = self.size();
        self.piece().len() == 1 && (self.sizes.can_shrink(size) || packing.fits >= Some(size))
    }

    /// Continues without a single item that does not fit by itself. This is no evidence about the others: the item's
    /// cost and its memory may be far apart, and no smaller step would have helped it.
    pub(super) fn leave_out(&mut self) -> Answer {
        let (index, cost) = (self.position, self.size());
        let is_at_the_floor = !self.sizes.can_shrink(cost);
        if let Some(packing) = &mut self.packing {
            if is_at_the_floor {
                // If the next item fails at the floor too, nothing fits any more.
                packing.fits = None;
            }
            if let Some(Search { before, .. }) = packing.search.take() {
                packing.settled_at = before.settled_at;
                self.restore(&before);
            }
        }
        self.move_to(index + 1);
        Answer::LeaveOut { index, cost }
    }

    /// Restores the state from before a search. Samples of successful attempts and the time are kept.
    fn restore(&mut self, before: &Snapshot) {
        (self.step, self.bounds, self.learning) = (before.step, before.bounds, before.learning);
        self.measurements = self.measurements.zip(before.measurements).map(|(now, before)| Measurements {
            time: now.time,
            samples: now.samples,
            failure_age: before.failure_age.saturating_add(now.time.saturating_sub(before.time)),
            ..before
        });
    }

    /// Takes the size of the pieces that have succeeded since the last call: the step, or the largest piece where
    /// none need fill a step, because they are even or sizes are costs.
    pub(crate) fn take_ran(&mut self, step: usize) -> usize {
        match &mut self.packing {
            Some(packing) => mem::take(&mut packing.ran),
            None if self.extent.even => mem::take(&mut self.ran),
            None => step,
        }
    }

    /// Adds a successful attempt to the measurements; a last, smaller piece is no evidence for its size. Returns
    /// false if the size must not be used again, because the allocator thrashes at it.
    #[inline(never)]
    pub(super) fn note(&mut self, size: usize, measured: &Measured) -> bool {
        let sample = self.sample(size, measured);
        let Some(measurements) = &mut self.measurements else { return true };
        evidence::succeeded(measurements, sample, measured);
        evidence::repeats(measurements, size, measured);
        evidence::works(measurements, size, self.bounds);
        !measurements.is_thrashing()
    }

    /// Settles the size of a batch, which is one attempt, if the next batch learns from that: it would have another
    /// size, or be the second in a row whose allocator tries again.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self, policy: &dyn Policy, size: usize, took: Took) {
        let next = self.sizes.fit(policy.advance(&self.evidence(size, took)));
        let has_retried = self.measurements.as_ref().is_some_and(|measurements| measurements.retried > 0);
        if (next != self.step || has_retried) && !self.fallback {
            self.learning.settled = Some(self.step);
        }
    }

    /// Sample of an attempt, if it is evidence for the current step.
    fn sample(&self, size: usize, measured: &Measured) -> Option<Sample> {
        if self.packing.is_some() {
            return self.fills(size).then(|| in_proportion(measured.sample(size), self.step));
        }
        (size == self.step).then(|| measured.sample(size))
    }

    /// Shortfall of the smallest size, estimated from measurements of others.
    pub(crate) fn shortfall(&self, measured: &Measured) -> Option<Shortfall> {
        let size = self.least();
        let needs_bytes = self.measurements?.samples.needs_bytes(size)?;
        let free_bytes = measured.available_bytes.filter(|&free| free < needs_bytes)?;
        Some(Shortfall { size, needs_bytes, free_bytes, per_item_bytes: None })
    }

    /// Shortfall of the failed size, if no smaller one is allowed.
    pub(crate) fn lacked(&self, failed: &Failed) -> Option<Shortfall> {
        let Cut { size, .. } = self.cut;
        if failed.class != Class::OutOfMemory || self.sizes.can_shrink(size) {
            return None;
        }
        let measured = failed.took.measured.unwrap_or_default();
        let before = measured.peak_bytes.unwrap_or_default();
        let needs_bytes = failed.requested_bytes?.saturating_add(before);
        let free_bytes = measured.available_bytes.or(failed.now.map(|now| now.free_bytes))?;
        let lacks = Shortfall { size, needs_bytes, free_bytes, per_item_bytes: None };
        (free_bytes < needs_bytes).then_some(lacks)
    }
}

/// Scales a sample to another size. Packed pieces are of many sizes, and a step that followed them would shrink with
/// each. The constant part of an attempt is scaled too, so the result is rather too large.
fn in_proportion(sample: Sample, size: usize) -> Sample {
    let factor = share(size, sample.size);
    let time = sample.time.map(|time| time.mul_f64(factor));
    let bytes = sample.bytes.map(|needed| whole_bytes(bytes(needed) * factor));
    Sample { size, time, repeated: sample.repeated.mul_f64(factor), bytes }
}
