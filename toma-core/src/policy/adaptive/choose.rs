//! Sizes from what was measured: whether a line through bytes can be trusted, and where it leads.

use super::probe::{has_risen, is_batch, is_far};
use super::{Adaptive, Evidence, Goal};
use crate::policy::figures::{bytes, number, share, whole};

/// The share of a size that is small enough to fit nearly always.
const SMALL: usize = 64;

/// Nobody begins with so many times what fits. An error that asks for more than so many times what is
/// there says nothing of the size.
const MOST_TOO_LARGE: f64 = 128.0;

/// A prediction is trusted up to so many times the largest size it was measured at.
const REACH_OF_ONE: f64 = 16.0;
const REACH: f64 = 64.0;

/// Only one size was measured.
pub(super) fn is_one(evidence: &Evidence) -> bool {
    evidence.measurements.samples.bytes().is_some_and(|line| line.points == 1)
}

/// A second size is measured at this part of the first, or at so many times it.
const SECOND: usize = 4;

/// The second size to measure. One alone does not tell what every attempt needs from what an item
/// adds, so it `fits` less than it seems; where even that is far, nothing need be measured for it.
pub(super) fn second(fits: usize, evidence: &Evidence) -> Option<usize> {
    let (step, floor) = (evidence.step, evidence.floor);
    let no_need = step >= evidence.cap || is_batch(evidence);
    if !is_one(evidence) || no_need || fits >= step.saturating_mul(2) {
        return None;
    }
    let larger = step.saturating_mul(SECOND);
    let is_free = evidence.bounds.smallest_failure.is_none_or(|high| larger < high);
    if step / SECOND >= floor { Some(step / SECOND) } else { Some(larger).filter(|_| is_free) }
}

/// Nothing is known at all: not from a cache, nor from attempts of this call.
pub(super) fn is_cold(evidence: &Evidence) -> bool {
    evidence.step == evidence.cap
        && evidence.bounds.largest_success.is_none()
        && evidence.elapsed.is_none()
        && evidence.bounds.smallest_failure.is_none()
}

/// Whether small attempts can tell what a large one needs. A batch is one attempt, and must not be small.
pub(super) fn measures_first(evidence: &Evidence) -> bool {
    evidence.counts_bytes && !is_batch(evidence) && evidence.measurements.samples.bytes().is_none()
}

/// Half of what fits at most after a failure, by what was lacking: part of what an attempt needs does
/// not depend on its size. Only while nothing has ever worked: later on it tells more about others. And
/// only in a batch: where pieces follow, one item may be what needs so much.
pub(super) fn half_of_what_fits(evidence: &Evidence) -> usize {
    let is_first = evidence.measurements.samples.iter().next().is_none();
    let most = most(evidence);
    let is_plausible = most >= number(evidence.size) / MOST_TOO_LARGE;
    if is_first && is_batch(evidence) && is_plausible { whole(most / 2.0).max(1) } else { usize::MAX }
}

/// What may fit after a failure, if all that the attempt needs is in proportion to its size.
fn most(evidence: &Evidence) -> f64 {
    let Some((asked, had)) = evidence.requested_bytes.zip(evidence.available_bytes) else {
        return f64::INFINITY;
    };
    let needed = asked.saturating_add(evidence.peak_bytes.unwrap_or_default());
    bytes(had) / bytes(needed) * number(evidence.size)
}

/// A size to measure after a failure: smaller still where far more was asked for than there is.
pub(super) fn small(evidence: &Evidence) -> usize {
    (evidence.size / SMALL).min(whole(most(evidence) / 4.0)).max(1)
}

pub(super) fn first(evidence: &Evidence) -> usize {
    let plenty = evidence.remaining / 8 >= evidence.cap;
    if plenty && measures_first(evidence) { (evidence.cap / SMALL).max(1) } else { evidence.step }
}

impl Adaptive {
    /// A larger size that is said to fit. Near one that fails, that has to be found out like any other;
    /// and differences as small as the noise of the measurements are none.
    pub(super) fn predicted(&self, fits: usize, evidence: &Evidence) -> Goal {
        let low = evidence.step;
        if share(fits - low, low) <= self.tolerance / 2.0 {
            Goal::Predicted(low)
        } else if is_far(evidence) || has_risen(evidence) {
            Goal::Predicted(fits)
        } else {
            Goal::Probe(fits)
        }
    }

    /// The size that the measurements say fits, if there are any.
    pub(super) fn fits(&self, evidence: &Evidence) -> Option<usize> {
        let line = evidence.measurements.samples.bytes()?;
        let usable = bytes(evidence.available_bytes?) * (1.0 - self.headroom);
        let reach = if line.points == 1 { REACH_OF_ONE } else { REACH };
        let fits = line.size_at(usable).min(line.largest * reach);
        Some(whole(fits))
    }
}

/// Whether this size needs more than there is, by what was measured.
pub(in crate::policy) fn needs_more(size: usize, evidence: &Evidence) -> bool {
    let line = evidence.measurements.samples.bytes();
    line.zip(evidence.available_bytes)
        .is_some_and(|(line, available)| line.at(number(size)) > bytes(available))
}
