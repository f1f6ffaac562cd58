//! Facts that follow from the evidence, for several policies.

use super::Evidence;
use super::figures::{bytes, number};

/// True if the amount of work to come is unknown.
pub(super) fn is_batch(evidence: &Evidence) -> bool {
    evidence.remaining == usize::MAX
}

/// Returns the size known to fail: the last one, or the earlier one if a smaller size failed in between and works
/// again.
///
/// Without the second: 35 times as long at p95 (batch, counts, failures by chance).
pub(super) fn failure(evidence: &Evidence) -> Option<usize> {
    evidence.bounds.smallest_failure.or(evidence.measurements.ceiling)
}

/// Returns the known failure if it is larger than the working size `low`.
pub(super) fn failure_beyond(low: usize, evidence: &Evidence) -> Option<usize> {
    failure(evidence).filter(|&high| high > low)
}

/// True if the known failure is so much larger than the working size that a larger step returns from having shrunk too
/// far, and does not probe the limit.
pub(super) fn is_far(evidence: &Evidence) -> bool {
    failure(evidence).is_none_or(|high| high > evidence.step.saturating_add(evidence.step / 2))
}

/// True if free memory has risen by a tenth since the failure.
pub(super) fn has_risen(evidence: &Evidence) -> bool {
    has_risen_since(evidence.measurements.failure_available_bytes, evidence)
}

/// True if free memory has risen by a tenth from the bytes available `then`.
pub(super) fn has_risen_since(then: Option<u64>, evidence: &Evidence) -> bool {
    then.zip(evidence.available_bytes)
        .is_some_and(|(then, now)| now > then && bytes(now - then) > bytes(then) / 10.0)
}

/// True if this size needs more bytes than are available, by the measurements.
pub(super) fn needs_more(size: usize, evidence: &Evidence) -> bool {
    let line = evidence.measurements.samples.bytes();
    line.zip(evidence.available_bytes)
        .is_some_and(|(line, available)| line.at(number(size)) > bytes(available))
}
