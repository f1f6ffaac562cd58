//! The loop as a plain state machine, which decides the next attempt from the results of the last ones.
//!
//! Nothing here runs user code except the pure policy, reads a clock, or touches shared state, so every rule of
//! the loop is tested against a script of failures.

mod adopting;
mod failing;
mod learned;
mod learning;
mod steady;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

use self::learned::{Learning, Packing};
use super::meter::Measured;
use super::pieces::{Cut, Extent};
use super::rungs::Rungs;
use super::sizes::Sizes;
use crate::classify::Class;
use crate::memory::Reading;
use crate::policy::{Bounds, Evidence, Measurements, Policy};
use crate::predict::Cuts;
use crate::shield::Retryable;

/// State of one call. Positions count items from 0; forms add their own offset.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(super) sizes: Sizes,
    extent: Extent,
    /// Items that are done: those that succeeded, and those left out.
    pub(super) position: usize,
    pub(super) step: usize,
    pub(super) bounds: Bounds,
    pub(super) max_attempts: usize,
    /// True if the policy is not asked after a success, so that the step stays as it is.
    pub(super) fixed: bool,
    /// True if the rest of the call runs in fallback.
    pub(super) fallback: bool,
    /// Rungs of the ladder that are left for the next attempt; none without a ladder.
    expected: Rungs,
    cut: Cut,
    /// Failed attempts at the piece, and the rungs that are spent at this size.
    failures: usize,
    spent: Rungs,
    learning: Learning,
    /// Measurements, if the policy needs any.
    pub(super) measurements: Option<Measurements>,
    /// Available bytes when the current step was chosen, if the policy measures memory.
    pub(super) available_bytes: Option<u64>,
    /// The step before the current doubt.
    pub(super) doubted: Option<usize>,
    /// The largest even piece that has succeeded since the last `take_ran`.
    ran: usize,
    packing: Option<Box<Packing>>,
    /// Size of the last piece, if another success of that size would change nothing; otherwise 0. Only for calls without
    /// stages, which could change the step or the bounds in between.
    steady: usize,
    /// Failures of a piece of that size that would be retried.
    steady_retryable: Retryable,
}

/// A failed attempt: the failure, the memory reading after it, the measurements, and the available rungs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) class: Class,
    pub(crate) requested_bytes: Option<u64>,
    pub(crate) now: Option<Reading>,
    pub(crate) took: Took,
    pub(crate) there: Rungs,
}

/// Cost of an attempt: its time, if the clock was read, and the measurements that the policy needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Took {
    pub(crate) elapsed: Option<Duration>,
    pub(crate) measured: Option<Measured>,
}

impl Machine {
    #[inline]
    pub(crate) fn new(mut extent: Extent, sizes: Sizes, max_attempts: Option<usize>, fixed: bool) -> Self {
        extent.even &= sizes.floor == 1;
        let packing = extent.costs.is_some().then(Box::default);
        Self {
            sizes,
            extent,
            position: 0,
            step: sizes.cap,
            bounds: Bounds::default(),
            max_attempts: max_attempts.unwrap_or(usize::MAX),
            fixed,
            fallback: false,
            expected: Rungs::NONE,
            cut: Cut::default(),
            failures: 0,
            spent: Rungs::NONE,
            learning: Learning::beyond(sizes.cap),
            measurements: None,
            available_bytes: None,
            doubted: None,
            ran: 0,
            packing,
            steady: 0,
            steady_retryable: Retryable::NOTHING,
        }
    }

    /// Starts from the settled size and the bounds of an earlier call.
    #[inline]
    pub(crate) fn start_from(&mut self, settled: usize, bounds: Bounds) {
        self.starts_at(settled);
        self.bounds = bounds;
    }

    /// Starts at a size that is expected to fit.
    #[inline]
    pub(crate) fn starts_at(&mut self, size: usize) {
        self.step = self.sizes.fit(size);
        self.learning = Learning::beyond(self.step);
        self.steady = 0;
    }

    /// Lets the policy choose the first step. `now`: the available memory, if the policy measures it.
    #[inline]
    pub(crate) fn choose_first(&mut self, policy: &dyn Policy, now: Option<Measured>) {
        if !self.fixed && !self.is_done() {
            let first = self.coming();
            self.advance(policy, first.size, Took { elapsed: None, measured: now });
        }
    }

    /// Returns the size known to work, if the policy starts beyond it.
    #[inline]
    pub(crate) fn probes_from(&self) -> Option<usize> {
        Some(self.learning.best).filter(|&best| best < self.step)
    }

    /// Doubts the current step: the next attempt is at twice the size, and a failure goes back. Returns the new step.
    pub(crate) fn doubt(&mut self) -> Option<usize> {
        let next = self.sizes.fit(self.step.saturating_mul(2));
        if next <= self.step || self.left() <= self.step || self.is_searching() {
            return None;
        }
        self.doubted = Some(self.step);
        self.step = next;
        Some(next)
    }

    /// True if a larger step would be of use, and the policy does not look for one by itself.
    #[inline]
    pub(crate) fn may_doubt(&self) -> bool {
        self.step < self.sizes.cap && !self.extent.single && self.measurements.is_none() && !self.fallback
    }

    /// Cuts the piece of the next attempt.
    #[inline]
    pub(crate) fn cut(&mut self) -> Range<usize> {
        self.cut = self.coming();
        self.piece()
    }

    #[inline]
    fn coming(&self) -> Cut {
        let cut = self.extent.cut(self.position, self.step);
        if self.packing.is_some() { self.within_search(cut) } else { cut }
    }

    /// The items of the attempt.
    #[inline]
    pub(crate) fn piece(&self) -> Range<usize> {
        self.position..self.cut.end
    }

    /// The size of the attempt.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.cut.size
    }

    /// The start size in reports: the step, or for even pieces the size of the first one.
    #[inline]
    pub(crate) fn first_size(&self) -> usize {
        if self.extent.even { self.coming_size() } else { self.step }
    }

    /// The size of the next attempt, before it is cut.
    pub(crate) fn coming_size(&self) -> usize {
        self.coming().size
    }

    /// Remaining work, in units of the step.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.extent.size(self.position..self.extent.end)
    }

    /// Remaining work after the current piece, in units of the step.
    pub(crate) fn left_behind(&self) -> usize {
        if self.extent.single { 0 } else { self.extent.size(self.cut.end..self.extent.end) }
    }

    /// True for a batch: one piece, at the size that succeeds.
    pub(crate) fn is_batch(&self) -> bool {
        self.extent.single
    }

    /// The smallest size of the next attempt.
    pub(crate) fn least(&self) -> usize {
        self.sizes.floor.min(self.left())
    }

    /// The whole work, in units of the step.
    #[inline]
    pub(crate) fn whole(&self) -> usize {
        self.extent.size(0..self.extent.end)
    }

    #[inline]
    pub(crate) fn is_packed(&self) -> bool {
        self.packing.is_some()
    }

    /// Upper bound of the number of pieces that are left.
    pub(crate) fn most_pieces(&self) -> usize {
        let left = self.extent.end - self.position;
        if self.is_packed() { left } else { left.div_ceil(self.sizes.floor) }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.position == self.extent.end
    }

    /// Returns the failures that would be retried. Decided before each attempt, so that a panic hook may rely on it.
    #[inline]
    pub(crate) fn retryable(&self) -> Retryable {
        let attempts_left = self.failures + 1 < self.max_attempts;
        let can_be_left_out = self.is_single_item();
        let goes_on = !self.is_at_the_floor() || !self.expected.is_empty();
        let transient = goes_on || !self.spent.has(Rungs::TRANSIENT);
        Retryable::new(
            attempts_left && goes_on || can_be_left_out,
            attempts_left && transient || can_be_left_out,
        )
    }

    /// True if nothing smaller than the piece can be tried.
    #[inline]
    pub(crate) fn is_at_the_floor(&self) -> bool {
        !self.sizes.can_shrink(self.size()) || self.is_single_item()
    }

    /// Moves on if the last piece succeeded and shows nothing but that its size works, as in a call of one piece.
    /// Otherwise returns false.
    #[inline]
    pub(crate) fn ends_as_expected(&mut self) -> bool {
        let Cut { end, size } = self.cut;
        let is_last = end == self.extent.end || self.extent.single;
        let may_settle = self.extent.even || self.learning.moved || size > self.learning.best;
        if !is_last || may_settle || self.packing.is_some() {
            return false;
        }
        self.bounds.succeeded(size);
        self.doubted = None;
        self.move_to(end);
        true
    }

    /// Moves on after the piece succeeded. Returns the new step if it changes.
    #[inline]
    pub(crate) fn succeeded(&mut self, policy: &dyn Policy, took: Took) -> Option<usize> {
        let Cut { end, size } = self.cut;
        if self.extent.even {
            self.ran = self.ran.max(size);
        }
        let works = took.measured.is_none_or(|measured| self.note(size, &measured));
        if works {
            self.works(size);
        } else {
            self.bounds.failed(size);
        }
        self.doubted = None;
        if self.extent.single && took.measured.is_some() {
            self.look_ahead(policy, size, took);
        }
        self.move_to(end);
        if self.is_done() || self.is_searching() {
            return None;
        }
        let explored = took.measured.and_then(|measured| measured.explored).map(NonZeroUsize::get);
        if let Some(fits) = explored.filter(|&fits| fits > self.step) {
            return self.goes_on_at(fits);
        }
        if !self.fixed {
            return self.advance(policy, size, took);
        }
        let changes = self.extent.even || self.packing.is_some() || self.may_doubt();
        self.steady = if changes { 0 } else { size };
        self.steady_retryable = self.retryable();
        None
    }

    /// Continues at a larger size that is predicted to fit. Returns the new step if it changes.
    fn goes_on_at(&mut self, size: usize) -> Option<usize> {
        let from = self.step;
        self.starts_at(size);
        (self.step != from).then_some(self.step)
    }

    /// Starts the next piece at `position`.
    #[inline]
    fn move_to(&mut self, position: usize) {
        self.position = position;
        if self.extent.single {
            self.extent.end = position;
        }
        if self.failures > 0 {
            (self.failures, self.spent) = (0, Rungs::NONE);
        }
        if self.packing.is_some() {
            self.end_search();
        }
    }

    /// Asks the policy for the next step, and returns it if it differs. `size`: the attempt just made, or the one
    /// that would be made first.
    fn advance(&mut self, policy: &dyn Policy, size: usize, took: Took) -> Option<usize> {
        if let Some(measured) = took.measured {
            self.available_bytes = measured.available_bytes;
        }
        let next = self.sizes.fit(policy.advance(&self.evidence(size, took)));
        let changed = (next != self.step).then_some(next);
        self.step = next;
        self.learning.moved |= self.measurements.is_some() && changed.is_some() && !self.fallback;
        changed
    }

    #[inline]
    fn evidence(&self, size: usize, took: Took) -> Evidence {
        let Sizes { floor, cap, multiple_of } = self.sizes;
        let (elapsed, remaining, bounds, step) = (took.elapsed, self.left(), self.bounds, self.step);
        let evidence =
            Evidence { step, elapsed, remaining, bounds, floor, cap, multiple_of, ..Evidence::new(size) };
        match (self.measurements, took.measured) {
            (Some(measurements), Some(measured)) => {
                let predicted = measured.predicted.map(NonZeroUsize::get);
                let Measured { available_bytes, counts_bytes, peak_bytes, leaned, .. } = measured;
                let evidence = Evidence { available_bytes, counts_bytes, peak_bytes, ..evidence };
                Evidence { predicted, repeated: leaned.repeated, measurements, ..evidence }
            }
            _ => evidence,
        }
    }
}

impl Cuts for Machine {
    fn fit(&self, step: usize) -> usize {
        self.sizes.fit(step)
    }

    fn first(&self, step: usize) -> (Range<usize>, usize) {
        let Cut { end, size } = self.extent.cut(0, step);
        (0..end, size)
    }

    fn size_of(&self, items: usize) -> usize {
        self.extent.size(0..items.min(self.extent.end))
    }
}
