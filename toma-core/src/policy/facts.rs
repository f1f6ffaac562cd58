//! Facts that follow from the evidence, for several policies.

use super::Evidence;
use super::figures::{bytes, number};

/// Whether it is unknown how much is to come.
pub(super) fn is_batch(evidence: &Evidence) -> bool {
    evidence.remaining == usize::MAX
}

/// The size known to fail: the last one, or the one before a smaller size failed that works again.
///
/// Without the second: 35 times as long at p95 (batch, counts, failures by chance).
pub(super) fn failure(evidence: &Evidence) -> Option<usize> {
    evidence.bounds.smallest_failure.or(evidence.measurements.ceiling)
}

/// The same where it is larger than what works.
pub(super) fn failure_beyond(low: usize, evidence: &Evidence) -> Option<usize> {
    failure(evidence).filter(|&high| high > low)
}

/// Whether the known failure is so much larger than what works that a larger step is a return from having
/// shrunk too far, and no probe of the limit.
pub(super) fn is_far(evidence: &Evidence) -> bool {
    failure(evidence).is_none_or(|high| high > evidence.step.saturating_add(evidence.step / 2))
}

/// Whether free memory has risen by a tenth since the failure.
pub(super) fn has_risen(evidence: &Evidence) -> bool {
    has_risen_since(evidence.measurements.failure_available_bytes, evidence)
}

/// Whether free memory has risen by a tenth since so much of it was available.
pub(super) fn has_risen_since(then: Option<u64>, evidence: &Evidence) -> bool {
    then.zip(evidence.available_bytes)
        .is_some_and(|(then, now)| now > then && bytes(now - then) > bytes(then) / 10.0)
}

/// Whether this size needs more than there is, by what was measured.
pub(super) fn needs_more(size: usize, evidence: &Evidence) -> bool {
    let line = evidence.measurements.samples.bytes();
    line.zip(evidence.available_bytes)
        .is_some_and(|(line, available)| line.at(number(size)) > bytes(available))
}
