//! Sizes that have to [repeat](crate::leaner): pieces give the same result at any size, so the faster way counts.
//!
//! Time is that of the line through the measured times less what was repeated. A size below the smallest that has to
//! repeat is said to be as fast as that line.
//!
//! # Why
//!
//! Samples of pieces that repeat have no bytes. The line through bytes says what fits without repeating,
//! which is where policies are to stop. Bounds of such sizes are not those of failures: a size that repeats
//! works.

use super::facts::has_risen_since;
use super::figures::share;
use super::measurements::Repeating;
use super::{Evidence, Sample};

/// After so many attempts a size that had to repeat may be tried again: one in so many costs little.
const FORGOTTEN: u32 = 256;

/// The smallest size that has to repeat, unless that was with clearly less memory.
fn smallest(evidence: &Evidence) -> Option<usize> {
    let Repeating { bounds, available_bytes, .. } = evidence.measurements.repeating;
    bounds.smallest_failure.filter(|_| !has_risen_since(available_bytes, evidence))
}

/// A size to try that may do without repeating, where that would be faster than all sizes so far.
pub(super) fn explore(evidence: &Evidence, tolerance: f64) -> Option<usize> {
    let high = smallest(evidence)?;
    let low = evidence.measurements.repeating.bounds.largest_success.filter(|&low| low < high);
    let size = low.map_or(high / 2, |low| low + (high - low) / 2);
    let size = size / evidence.multiple_of * evidence.multiple_of;
    let is_new = size >= evidence.floor && low.is_none_or(|low| size > low);
    let line = evidence.measurements.samples.seconds_without_repeating()?;
    let most = 1.0 / line.per_item(high - 1).max(f64::MIN_POSITIVE);
    let best = best_rate(evidence)?;
    // Half of the tolerance, because what is chosen in the end may be as much slower once more.
    (is_new && most > best * (1.0 + tolerance / 2.0)).then_some(size)
}

/// The size to use next where a policy would go to `goal`: no larger one that has to repeat, unless it is the faster
/// way.
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

/// A size that was clearly faster than this one, if any was.
fn faster(size: usize, evidence: &Evidence, tolerance: f64) -> usize {
    let rate = |sample: &Sample| sample.rate().unwrap_or_default();
    let best = samples(evidence).max_by(|one, other| rate(one).total_cmp(&rate(other)));
    let enough = rate_at(size, evidence).map(|here| here * (1.0 + tolerance / 2.0));
    let best = best.filter(|best| enough.is_some_and(|enough| rate(best) > enough));
    best.map_or(size, |best| best.size)
}

/// Items per second at this size; a sample beside one that repeats nothing is not kept.
fn rate_at(size: usize, evidence: &Evidence) -> Option<f64> {
    let last = Sample { time: evidence.elapsed, ..Sample::new(evidence.size) };
    let sample = samples(evidence).find(|sample| sample.size == size);
    sample.or(Some(last).filter(|last| last.size == size))?.rate()
}

fn best_rate(evidence: &Evidence) -> Option<f64> {
    samples(evidence).filter_map(|sample| sample.rate()).max_by(f64::total_cmp)
}

/// Those of sizes that are not known to fail.
fn samples(evidence: &Evidence) -> impl Iterator<Item = Sample> {
    let failed = evidence.bounds.smallest_failure.unwrap_or(usize::MAX);
    let most = evidence.cap.min(failed.saturating_sub(1));
    evidence.measurements.samples.iter().filter(move |sample| sample.size <= most)
}
