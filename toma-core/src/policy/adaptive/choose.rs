//! Sizes from measured bytes: where the line through them leads, and how far it is trusted.
//!
//! | size | formula |
//! |---|---|
//! | fits | the largest `n` with `a + b * n <= available * (1 - headroom)`, at most `reach * largest sample` |
//! | small, after a failure | `min(size / 64, size * available / needed / 4)` |
//! | first, where 8 pieces follow | `cap / 64` |
//! | second, where less than twice the first fits | a quarter of the first; else 4 times, or 2 times a single item |
//! | half of what fits, in a batch | `size * available / needed / 2` |
//!
//! # Why
//!
//! Where peaks are counted, the first attempts are small. Two of them say what every attempt needs and what
//! an item adds, so the first large one is right.
//!
//! A single item predicts little, because a convolution of one image runs another kernel than one of two.
//! Leaving size 1 out of the line begins too late where every attempt needs much besides its items.

use super::probe::{has_risen, is_batch, is_far};
use super::{Adaptive, Evidence, Goal};
use crate::policy::Fit;
use crate::policy::figures::{bytes, number, share, whole};

/// The first size to measure is this part of the cap, or of a size that failed.
const SMALL: usize = 64;

/// An attempt that needs more than this many times the available bytes tells nothing of the size.
const MOST_TOO_LARGE: f64 = 128.0;

/// The second size is the first, divided or multiplied by this.
const SECOND: usize = 4;

/// The line through the measured bytes.
fn line(evidence: &Evidence) -> Option<Fit> {
    evidence.measurements.samples.bytes()
}

/// Whether only one size was measured, and nothing else tells of others.
pub(super) fn is_one(evidence: &Evidence) -> bool {
    evidence.foreseen.is_none() && line(evidence).is_some_and(|line| line.points == 1)
}

/// A line is trusted up to this many times the largest size it goes through. A single item often runs other
/// kernels than several, so its sample counts for little until there are two larger ones.
fn reach(line: &Fit, evidence: &Evidence) -> f64 {
    let samples = evidence.measurements.samples.iter();
    let larger = samples.filter(|sample| sample.size > 1 && sample.bytes.is_some()).count();
    match (line.points, larger) {
        (1, 0) => 2.0,
        (2, 1) => 1.5,
        (1, _) => 16.0,
        _ => 64.0,
    }
}

/// The second size to measure. One sample does not tell the bytes of every attempt from those of an item, so
/// more may fit than `fits`. Where even that is far, no second measurement is needed.
pub(super) fn second(fits: usize, evidence: &Evidence) -> Option<usize> {
    let (step, floor) = (evidence.step, evidence.floor);
    let no_need = step >= evidence.cap || is_batch(evidence);
    if !is_one(evidence) || no_need || fits >= step.saturating_mul(2) {
        return None;
    }
    if step / SECOND >= floor {
        return Some(step / SECOND);
    }
    let larger = step.saturating_mul(if step == 1 { 2 } else { SECOND });
    let is_free = evidence.bounds.smallest_failure.is_none_or(|high| larger < high);
    Some(larger).filter(|_| is_free)
}

/// Whether nothing is known, neither from a cache nor from attempts of this call.
pub(super) fn is_cold(evidence: &Evidence) -> bool {
    evidence.step == evidence.cap
        && evidence.bounds.largest_success.is_none()
        && evidence.elapsed.is_none()
        && evidence.bounds.smallest_failure.is_none()
}

/// Whether small attempts can tell what a large one needs. A batch is one attempt, and must not be small.
pub(super) fn measures_first(evidence: &Evidence) -> bool {
    evidence.counts_bytes && !is_batch(evidence) && line(evidence).is_none()
}

/// At most half of what fits in proportion, after a failure: part of the bytes does not depend on the size.
///
/// Only while nothing has ever worked, because later failures tell more about other users of the memory. And
/// only in a batch, because among pieces one item may need all these bytes.
pub(super) fn half_of_what_fits(evidence: &Evidence) -> usize {
    let is_first = evidence.measurements.samples.iter().next().is_none();
    let most = most(evidence);
    let is_plausible = most >= number(evidence.size) / MOST_TOO_LARGE;
    if is_first && is_batch(evidence) && is_plausible { whole(most / 2.0).max(1) } else { usize::MAX }
}

/// What may fit after a failure, if all bytes of the attempt are in proportion to its size.
fn most(evidence: &Evidence) -> f64 {
    let Some((asked, available)) = evidence.requested_bytes.zip(evidence.available_bytes) else {
        return f64::INFINITY;
    };
    let needed = asked.saturating_add(evidence.peak_bytes.unwrap_or_default());
    bytes(available) / bytes(needed) * number(evidence.size)
}

/// A size to measure after a failure: smaller still where far more was asked for than there is.
pub(super) fn small(evidence: &Evidence) -> usize {
    (evidence.size / SMALL).min(whole(most(evidence) / 4.0)).max(1)
}

/// The size of a cold call's first attempt.
pub(super) fn first(evidence: &Evidence) -> usize {
    let plenty = evidence.remaining / 8 >= evidence.cap;
    if plenty && measures_first(evidence) { (evidence.cap / SMALL).max(1) } else { evidence.step }
}

impl Adaptive {
    /// A larger size that is said to fit. Near a failure it is a probe, and a gain within the noise of the
    /// measurements is none.
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

    /// The size that a prediction says fits, or the measurements, if there are any.
    pub(super) fn fits(&self, evidence: &Evidence) -> Option<usize> {
        if evidence.foreseen.is_some() {
            return evidence.foreseen;
        }
        let line = line(evidence)?;
        let usable = bytes(evidence.available_bytes?) * (1.0 - self.headroom);
        Some(whole(line.size_at(usable).min(line.largest * reach(&line, evidence))))
    }
}

/// Whether this size needs more than there is, by what was measured.
pub(in crate::policy) fn needs_more(size: usize, evidence: &Evidence) -> bool {
    let line = line(evidence);
    line.zip(evidence.available_bytes)
        .is_some_and(|(line, available)| line.at(number(size)) > bytes(available))
}
