//! Adds attempts to the measurements of a policy that needs them.

use std::time::Duration;

use super::meter::Measured;
use crate::policy::{Bounds, Measurements, Sample};

/// Position of a failed size relative to the known bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailedAt {
    /// At or beyond a size known to fail.
    Known,
    /// Beyond a size known to work, below those known to fail.
    Beyond,
    /// At a size thought to work, or while nothing is known to work.
    Unexpected,
}

impl FailedAt {
    /// Classifies a failure at `size`, before the bounds record it.
    pub(super) fn of(size: usize, bounds: Bounds) -> Self {
        match (bounds.largest_success, bounds.smallest_failure) {
            (Some(low), Some(high)) if low < size && high <= size => Self::Known,
            (Some(low), _) if low < size => Self::Beyond,
            _ => Self::Unexpected,
        }
    }
}

/// Ages the last failure by `time`, in which possibly no work was done.
pub(crate) fn pass(measurements: &mut Measurements, time: Duration) {
    measurements.failure_age = measurements.failure_age.saturating_add(time);
}

/// Adds the time of an attempt, and returns it.
fn spend(measurements: &mut Measurements, measured: &Measured) -> Duration {
    let took = measured.elapsed.unwrap_or_default();
    measurements.time = measurements.time.saturating_add(took);
    pass(measurements, took);
    took
}

/// Records for this size if its attempt had to recompute anything.
pub(super) fn repeats(measurements: &mut Measurements, size: usize, measured: &Measured) {
    if !measured.leaned.keeps_size {
        measurements.repeating.note(size, measured.repeats(), measured.available_bytes);
    }
}

/// Records a successful attempt. `sample`: the attempt, if it is evidence for its size.
pub(super) fn succeeded(measurements: &mut Measurements, sample: Option<Sample>, measured: &Measured) {
    spend(measurements, measured);
    retried(measurements, measured);
    measurements.failures = 0;
    if let Some(sample) = sample {
        measurements.clean_runs = measurements.clean_runs.saturating_add(1);
        measurements.known_runs = measurements.known_runs.saturating_add(1);
        measurements.samples.add(sample);
    }
}

/// Keeps the smallest size known to fail when a smaller one fails that had worked: it is still known to fail.
pub(super) fn keep_ceiling(measurements: &mut Measurements, size: usize, bounds: Bounds) {
    if bounds.largest_success.is_some_and(|works| works >= size) {
        let larger = bounds.smallest_failure.filter(|&failed| failed > size);
        measurements.ceiling = measurements.ceiling.or(larger);
    }
}

/// Records a size that works: sizes at or below it are no longer known to fail.
pub(super) fn works(measurements: &mut Measurements, size: usize, bounds: Bounds) {
    measurements.ceiling = measurements.ceiling.filter(|&ceiling| ceiling > size);
    if bounds.smallest_failure.is_some_and(|failed| failed <= size) && measurements.ceiling.is_none() {
        (measurements.confirmed, measurements.known_runs) = (0, 0);
    }
}

/// Records a failed attempt.
pub(super) fn failed(measurements: &mut Measurements, failure: FailedAt, measured: &Measured) {
    let cost = spend(measurements, measured);
    retried(measurements, measured);
    measurements.failures = measurements.failures.saturating_add(1);
    measurements.confirmed = match failure {
        FailedAt::Known => measurements.confirmed.saturating_add(1),
        FailedAt::Beyond => measurements.confirmed,
        FailedAt::Unexpected => 0,
    };
    if failure == FailedAt::Beyond || failure == FailedAt::Unexpected && measurements.ceiling.is_none() {
        measurements.known_runs = 0;
    }
    if failure != FailedAt::Unexpected {
        measurements.wasted = measurements.wasted.saturating_add(cost);
    }
    (measurements.failure_age, measurements.failure_cost, measurements.clean_runs) =
        (Duration::ZERO, cost, 0);
    measurements.failure_available_bytes = measured.available_bytes;
}

fn retried(measurements: &mut Measurements, measured: &Measured) {
    // After two in a row the size has changed, so the count starts again.
    let before = if measurements.is_thrashing() { 0 } else { measurements.retried };
    measurements.retried = if measured.retried { before + 1 } else { 0 };
}

#[cfg(test)]
mod tests {
    use super::{Bounds, FailedAt};

    #[test]
    fn a_failure_is_expected_beyond_the_known_bounds() {
        let bounds = |low, high| Bounds { largest_success: low, smallest_failure: high };
        assert_eq!(FailedAt::of(8, bounds(None, None)), FailedAt::Unexpected);
        assert_eq!(FailedAt::of(8, bounds(Some(8), None)), FailedAt::Unexpected);
        assert_eq!(FailedAt::of(8, bounds(None, Some(8))), FailedAt::Unexpected);
        assert_eq!(FailedAt::of(8, bounds(Some(4), Some(9))), FailedAt::Beyond);
        assert_eq!(FailedAt::of(8, bounds(Some(4), Some(8))), FailedAt::Known);
    }
}
