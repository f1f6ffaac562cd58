//! How attempts enter the record of a policy that measures.

use std::time::Duration;

use super::gauge::Measured;
use crate::policy::{Bounds, Record, Sample};

/// What a failure says about what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// At or beyond a size known to fail.
    Confirmed,
    /// Beyond a size known to work, below those known to fail.
    Probe,
    /// At a size thought to work, or while nothing is known to work.
    Blow,
}

impl Failure {
    /// A failure at `size`, before the bounds take note of it.
    pub(super) fn at(size: usize, bounds: Bounds) -> Self {
        match (bounds.largest_success, bounds.smallest_failure) {
            (Some(low), Some(high)) if low < size && high <= size => Self::Confirmed,
            (Some(low), _) if low < size => Self::Probe,
            _ => Self::Blow,
        }
    }
}

/// Time has passed.
pub(crate) fn pass(record: &mut Record, time: Duration) {
    record.time = record.time.saturating_add(time);
    record.failure_age = record.failure_age.saturating_add(time);
}

/// An attempt succeeded; `sample` is it where it says something about its size.
pub(super) fn succeeded(record: &mut Record, sample: Option<Sample>, measured: &Measured) {
    pass(record, measured.elapsed.unwrap_or_default());
    retried(record, measured);
    record.failures = 0;
    if let Some(sample) = sample {
        record.clean_runs = record.clean_runs.saturating_add(1);
        record.samples.add(sample);
    }
}

/// An attempt failed.
pub(super) fn failed(record: &mut Record, failure: Failure, measured: &Measured) {
    let cost = measured.elapsed.unwrap_or_default();
    pass(record, cost);
    retried(record, measured);
    record.failures = record.failures.saturating_add(1);
    record.confirmed = match failure {
        Failure::Confirmed => record.confirmed.saturating_add(1),
        Failure::Probe => record.confirmed,
        Failure::Blow => 0,
    };
    if failure != Failure::Blow {
        record.wasted = record.wasted.saturating_add(cost);
    }
    (record.failure_age, record.failure_cost, record.clean_runs) = (Duration::ZERO, cost, 0);
    record.failure_available_bytes = measured.available_bytes;
}

fn retried(record: &mut Record, measured: &Measured) {
    // Two in a row have had their consequence: the size is another now.
    let before = if record.is_thrashing() { 0 } else { record.retried };
    record.retried = if measured.retried { before + 1 } else { 0 };
}
