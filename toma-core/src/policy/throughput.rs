//! The smallest size that is as fast as any.
//!
//! # Why
//!
//! [`Adaptive`] finds the limit, and is used only if a larger size would be faster. Otherwise two policies would
//! contain the same search.

use super::facts::{has_risen, needs_more};
use super::repeating::explore;
use super::{Adaptive, Evidence, Needs, Policy, Sample};

/// Uses the smallest size that does as many items per second as any other, within a tolerance.
///
/// Larger sizes stop being faster once the device is busy: beyond that they only need memory. The work itself is the
/// measurement: each size is tried on real pieces, from the largest down by halves. If only the largest size is fast
/// enough, still larger ones may be faster, and [`Adaptive`] looks for the limit.
///
/// In `range`, `chunked`, `map` and `fold` the size moves within one call; in `batch` from call to call. A batch is
/// taken to do as many items as its size. A size that failed is considered again when the `device` has clearly more
/// free memory than at the failure.
///
/// A size whose pieces have to [recompute](crate::leaner) is judged by its measured speed. If smaller sizes would be
/// faster without recomputing, the policy looks for the largest size that need not recompute.
///
/// A size at which the allocator releases its cached memory and tries again in two attempts in a row is
/// thrashing. It counts as too large even though it succeeds.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{Adaptive, Throughput};
///
/// let default = Throughput::default();           // within 5 % of the best items per second
/// assert_ne!(default, Throughput::within(0.01));
/// let careful = Throughput::over(Adaptive::default().waste(0.005).headroom(0.1)).tolerance(0.01);
/// assert_ne!(default, careful);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    tolerance: f64,
    adaptive: Adaptive,
}

impl Throughput {
    /// Accepts a rate that is below the best items per second by at most this share.
    ///
    /// # Panics
    /// When `tolerance` is not at least 0 and less than 1.
    pub fn within(tolerance: f64) -> Self {
        Self::default().tolerance(tolerance)
    }

    /// Uses `adaptive` to shrink and to look for the limit, with its `waste`, `headroom` and so on.
    pub fn over(adaptive: Adaptive) -> Self {
        Self { adaptive, ..Self::default() }
    }

    /// Accepts a rate that is below the best items per second by at most this share; 0.05 by default.
    ///
    /// # Panics
    /// When `tolerance` is not at least 0 and less than 1.
    #[must_use]
    pub fn tolerance(self, tolerance: f64) -> Self {
        assert!(
            (0.0..1.0).contains(&tolerance),
            "throughput tolerance {tolerance}: must be at least 0 and less than 1"
        );
        Self { tolerance, ..self }
    }

    /// Returns the size to use next, by the sizes measured so far.
    fn choose(&self, evidence: &Evidence) -> Option<usize> {
        let samples = || evidence.measurements.samples.iter().filter(|sample| sample.size <= limit(evidence));
        let rate = |sample: &Sample| sample.rate().unwrap_or_default();
        let best = samples().map(|sample| rate(&sample)).max_by(f64::total_cmp)?;
        let fast = samples().find(|sample| rate(sample) >= best * (1.0 - self.tolerance))?.size;
        if let Some(size) = explore(evidence, self.tolerance).filter(|&size| may_try(size, evidence)) {
            return Some(size);
        }
        let (smallest, largest) = (samples().next()?.size, samples().last()?.size);
        if fast == largest
            && let Some(larger) = self.larger(fast, smallest, evidence)
        {
            return Some(larger);
        }
        if fast == smallest && may_try(fast / 2, evidence) { Some(fast / 2) } else { Some(fast) }
    }

    /// Returns a size beyond the fastest, which is the largest measured so far.
    fn larger(&self, fast: usize, smallest: usize, evidence: &Evidence) -> Option<usize> {
        let is_single = fast == smallest;
        let twice = fast.saturating_mul(2).min(evidence.cap);
        if is_single && twice > fast && may_try(twice, evidence) {
            return Some(twice);
        }
        if is_single && fast > evidence.floor {
            return None;
        }
        let goal = self.adaptive.advance(evidence);
        // A single measured size does not show that more would be faster.
        let pays = || is_single || self.pays(goal, evidence);
        (evidence.step == fast && goal > fast && pays()).then_some(goal)
    }

    /// True if looking for so large a size is worth it. Below the known failure every larger size is; beyond it, the
    /// rate has to rise by more than the tolerance.
    fn pays(&self, goal: usize, evidence: &Evidence) -> bool {
        if evidence.bounds.smallest_failure.is_some_and(|high| goal < high) {
            return true;
        }
        let Some(line) = evidence.measurements.samples.seconds() else { return false };
        let most = evidence.step.saturating_mul(2).max(goal);
        line.per_item(most) < line.per_item(evidence.step) * (1.0 - self.tolerance)
    }
}

/// Returns the largest size that is allowed and not known to fail. A failure with clearly less free memory no longer
/// counts, because otherwise a passing shortage would hide the rates of larger sizes for good.
fn limit(evidence: &Evidence) -> usize {
    let holds = |&failed: &usize| !has_risen(evidence) || needs_more(failed, evidence);
    evidence
        .bounds
        .smallest_failure
        .filter(holds)
        .map_or(usize::MAX, |failed| failed.saturating_sub(1))
        .min(evidence.cap)
}

/// True if enough work is left for another size to be worth a try.
fn may_try(size: usize, evidence: &Evidence) -> bool {
    size <= limit(evidence) && evidence.remaining / WORTH_A_TRY >= size.max(evidence.step)
}

impl Default for Throughput {
    fn default() -> Self {
        Self { tolerance: 0.05, adaptive: Adaptive::default() }
    }
}

/// Number of pieces of the current size that must be left for another size to be worth a try.
const WORTH_A_TRY: usize = 4;

impl Policy for Throughput {
    fn shrink(&self, evidence: &Evidence) -> usize {
        self.adaptive.shrink(evidence)
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        if evidence.measurements.is_thrashing() {
            return evidence.bounds.below(evidence.step);
        }
        self.choose(evidence).unwrap_or(evidence.step)
    }

    fn needs(&self) -> Needs {
        Needs::TIME_AND_MEMORY
    }
}
