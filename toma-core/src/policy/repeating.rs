//! Sizes that have to [recompute](crate::leaner). Pieces give the same result at any size, so the faster size is
//! chosen.
//!
//! The time without recomputing is estimated by a line through the measured times less the time spent on recomputing.
//! Sizes below the smallest that has to recompute are taken to be as fast as that line.
//!
//! # Why
//!
//! Samples of pieces that recompute have no bytes. The line through bytes gives the largest size that fits without
//! recomputing, at which policies are to stop. The bounds of sizes that recompute are separate from the bounds of
//! failures, because a size that recomputes works.

use super::facts::has_risen_since;
use super::figures::share;
use super::measurements::Repeating;
use super::{Evidence, Sample};

/// After this many attempts a size that had to recompute may be tried again: one attempt in so many costs little.
const FORGOTTEN: u32 = 256;

/// Returns the smallest size that has to recompute, unless that was with clearly less memory.
fn smallest(evidence: &Evidence) -> Option<usize> {
    let Repeating { bounds, available_bytes, .. } = evidence.measurements.repeating;
    bounds.smallest_failure.filter(|_| !has_risen_since(available_bytes, evidence))
}

/// Returns a size to try that may run without recomputing, if it would then be faster than all sizes so far.
pub(super) fn explore(evidence: &Evidence, tolerance: f64) -> Option<usize> {
    let high = smallest(evidence)?;
    let low = evidence.measurements.repeating.bounds.largest_success.filter(|&low| low < high);
    let size = low.map_or(high / 2, |low| low + (high - low) / 2);
    let size = size / evidence.multiple_of * evidence.multiple_of;
    let is_new = size >= evidence.floor && low.is_none_or(|low| size > low);
    let line = evidence.measurements.samples.seconds_without_repeating()?;
    let most = 1.0 / line.per_item(high - 1).max(f64::MIN_POSITIVE);
    let best = samples(evidence).filter_map(|sample| sample.rate()).max_by(f64::total_cmp)?;
    // Half of the tolerance, because the size chosen in the end may be slower by as much once more.
    (is_new && most > best * (1.0 + tolerance / 2.0)).then_some(size)
}

/// Limits the size `goal` of a policy to sizes that need not recompute, unless a larger size is faster although it
/// recomputes.
pub(super) fn held(goal: usize, evidence: &Evidence, tolerance: f64) -> usize {
    let Some(high) = smallest(evidence) else { return goal };
    let step = evidence.step;
    if step >= high {
        return explore(evidence, tolerance).unwrap_or_else(|| faster(goal.min(step), evidence, tolerance));
    }
    let gap = high - step;
    let is_wide = gap > evidence.multiple_of && share(gap, step) > tolerance;
    if goal < high || evidence.measurements.repeating.runs >= FORGOTTEN {
        goal.min(high)
    } else if is_wide {
        step + gap / 2
    } else {
        faster(step, evidence, tolerance)
    }
}

/// Returns a size that was clearly faster than this one, or else this one.
fn faster(size: usize, evidence: &Evidence, tolerance: f64) -> usize {
    let rate = |sample: &Sample| sample.rate().unwrap_or_default();
    let best = samples(evidence).max_by(|one, other| rate(one).total_cmp(&rate(other)));
    let enough = rate_at(size, evidence).map(|here| here * (1.0 + tolerance / 2.0));
    let best = best.filter(|best| enough.is_some_and(|enough| rate(best) > enough));
    best.map_or(size, |best| best.size)
}

/// Items per second at this size. The last attempt has no sample if it recomputed and a near size did not.
fn rate_at(size: usize, evidence: &Evidence) -> Option<f64> {
    let last = Sample { time: evidence.elapsed, ..Sample::new(evidence.size) };
    let sample = samples(evidence).find(|sample| sample.size == size);
    sample.or(Some(last).filter(|last| last.size == size))?.rate()
}

/// The samples of sizes that are not known to fail.
fn samples(evidence: &Evidence) -> impl Iterator<Item = Sample> {
    let failed = evidence.bounds.smallest_failure.unwrap_or(usize::MAX);
    let most = evidence.cap.min(failed.saturating_sub(1));
    evidence.measurements.samples.iter().filter(move |sample| sample.size <= most)
}
