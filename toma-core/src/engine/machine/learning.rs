//! What a machine learns of sizes: which step settles, what enters the measurements, and which failures a single
//! item is to blame for.
//!
//! # Why
//!
//! A packed piece is evidence for the step only if it fills more than half of it. Two neighbors fill more
//! than one step together, so the others are tails or stand beside heavy items.
//!
//! What is measured of a packed piece counts for the step in proportion. Otherwise a policy that measures
//! would follow the pieces downward. The largest cost that ran settles, because no piece may have filled
//! the step.

use std::mem;

use super::learned::{Search, Snapshot};
use super::{Cut, Failed, Machine, Took};
use crate::classify::Class;
use crate::engine::evidence::{self, FailedAt};
use crate::engine::meter::Measured;
use crate::observe::{Answer, Shortfall};
use crate::policy::{Measurements, Policy, Sample};

impl Machine {
    /// The step worth remembering, once it has succeeded.
    #[inline]
    pub(crate) fn settled(&self) -> Option<usize> {
        self.learning.settled
    }

    /// What had settled has failed after all; a total failure must not pin later calls to it.
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

    /// The same where pieces are of any size up to the step.
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

    /// Whether a piece of this size says something about the step, where it need not fill one.
    ///
    /// Even pieces fill more than half of it, unless one is all there is. Packed ones seldom fill a step; two that follow
    /// each other fill more than one. So one that fills less than half says little, such as a short tail, and one beyond
    /// the step was a single item.
    fn fills(&self, size: usize) -> bool {
        size <= self.step && size > self.step / 2
    }

    /// Takes note that the size of the piece is too large.
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

    /// Whether a single item may be to blame for the last failures.
    #[inline]
    pub(super) fn is_searching(&self) -> bool {
        self.packing.as_ref().is_some_and(|packing| packing.search.is_some())
    }

    /// During a search no piece goes beyond the one that failed: its items alone say what was to blame.
    pub(super) fn within_search(&self, cut: Cut) -> Cut {
        let search = self.packing.as_ref().and_then(|packing| packing.search.as_ref());
        match search.filter(|search| search.end < cut.end) {
            Some(&Search { end, .. }) => Cut { end, size: self.extent.size(self.position..end) },
            None => cut,
        }
    }

    /// A search ends when all items of its piece are done: the piece was too large.
    pub(super) fn end_search(&mut self) {
        let position = self.position;
        if let Some(packing) = &mut self.packing {
            packing.search.take_if(|search| search.end <= position);
        }
    }

    /// Whether the piece is a single item that the others can do without: it costs more than the floor, or
    /// something as heavy has worked.
    #[inline]
    pub(super) fn is_single_item(&self) -> bool {
        let Some(packing) = &self.packing else { return false };
        let size = self.size();
        self.piece().len() == 1 && (self.sizes.can_shrink(size) || packing.fits >= Some(size))
    }

    /// Goes on without a single item that does not fit by itself. That says nothing of the others: what it costs
    /// and what it needs may be far apart, and no smaller step would have helped it.
    pub(super) fn leave_out(&mut self) -> Answer {
        let (index, cost) = (self.position, self.size());
        let is_at_the_floor = !self.sizes.can_shrink(cost);
        if let Some(packing) = &mut self.packing {
            if is_at_the_floor {
                // The next one that fails there shows that nothing fits any more.
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

    /// What was measured of attempts that succeeded stays, and so does the time.
    fn restore(&mut self, before: &Snapshot) {
        (self.step, self.bounds, self.learning) = (before.step, before.bounds, before.learning);
        self.measurements = self.measurements.zip(before.measurements).map(|(now, before)| Measurements {
            time: now.time,
            samples: now.samples,
            failure_age: before.failure_age.saturating_add(now.time.saturating_sub(before.time)),
            ..before
        });
    }

    /// The size of the pieces that have succeeded since it was asked last: the largest of them, where no piece need
    /// fill a step, because they are even or sizes are costs, and otherwise that step.
    pub(crate) fn take_ran(&mut self, step: usize) -> usize {
        match &mut self.packing {
            Some(packing) => mem::take(&mut packing.ran),
            None if self.extent.even => mem::take(&mut self.ran),
            None => step,
        }
    }

    /// An attempt that succeeded enters the measurements; a rest says nothing about its size. Returns whether the
    /// size is to be used again.
    #[inline(never)]
    pub(super) fn note(&mut self, size: usize, measured: &Measured) -> bool {
        let sample = self.sample(size, measured);
        let Some(measurements) = &mut self.measurements else { return true };
        evidence::succeeded(measurements, sample, measured);
        evidence::repeats(measurements, size, measured);
        evidence::works(measurements, size, self.bounds);
        !measurements.is_thrashing()
    }

    /// A batch is one attempt. It settles its size where the next one knows something by that: it would have another
    /// size, or be the second in a row whose allocator tries again.
    #[inline(never)]
    pub(super) fn look_ahead(&mut self, policy: &dyn Policy, size: usize, took: Took) {
        let next = self.sizes.fit(policy.advance(&self.evidence(size, took)));
        let has_retried = self.measurements.as_ref().is_some_and(|measurements| measurements.retried > 0);
        if (next != self.step || has_retried) && !self.fallback {
            self.learning.settled = Some(self.step);
        }
    }

    /// What an attempt says about the step in force.
    fn sample(&self, size: usize, measured: &Measured) -> Option<Sample> {
        if self.packing.is_some() {
            return self.fills(size).then(|| in_proportion(measured.sample(size), self.step));
        }
        (size == self.step).then(|| measured.sample(size))
    }

    /// What the smallest size lacks, by what has been measured of others.
    pub(crate) fn shortfall(&self, measured: &Measured) -> Option<Shortfall> {
        let size = self.least();
        let needs_bytes = self.measurements?.samples.needs_bytes(size)?;
        let free_bytes = measured.available_bytes.filter(|&free| free < needs_bytes)?;
        Some(Shortfall { size, needs_bytes, free_bytes, per_item_bytes: None })
    }

    /// What a size lacked that failed, and nothing smaller is allowed.
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

/// The same at another size. Pieces that are packed are of many sizes, and a step that followed them would shrink
/// with each; what every attempt needs besides makes this say rather too much.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates, which are not negative; and a cast saturates"
)]
fn in_proportion(sample: Sample, size: usize) -> Sample {
    let factor = size as f64 / sample.size as f64;
    let time = sample.time.map(|time| time.mul_f64(factor));
    let bytes = sample.bytes.map(|bytes| (bytes as f64 * factor) as u64);
    Sample { size, time, repeated: sample.repeated.mul_f64(factor), bytes }
}
