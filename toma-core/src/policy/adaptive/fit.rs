//! Sizes from measured bytes: the size to which the line through them leads, and how far that line is trusted.
//!
//! | size | formula |
//! |---|---|
//! | fits | the largest `n` with `a + b * n <= available * (1 - headroom)`, at most `reach * largest sample` |
//! | first, where 8 pieces follow | `cap / 64` |
//! | second, where less than twice the first fits | a quarter of the first |
//! | small, after a failure | `min(size / 64, size * available / needed / 4)` |
//! | halving that fits, in a batch | the largest `size / 2^k` that is at most `size * available / needed * 3 / 4` |

use super::{Adaptive, Evidence};
use crate::policy::Fit;
use crate::policy::facts::{failure_beyond, is_batch, needs_more};
use crate::policy::figures::{bytes, number, share, whole};

/// The first size to measure is this part of the cap, or of a size that failed.
///
/// Without a small first size: median +0.5 % cold (range, counts). Without one after a failure: +8.7 % cold
/// (range, counts, few items).
const SMALL: usize = 64;

/// The second size to measure is the first, divided by this.
const SECOND: usize = 4;

/// Part of the size that fits in proportion to use in a batch: bytes that do not depend on the size do not shrink with
/// it.
const IN_PROPORTION: f64 = 0.75;

/// An attempt that needs more than this many times the available bytes is no evidence about the size.
///
/// Without: median +1.0 %, p95 +1.1 % cold (batch, dry run, failures by chance).
const MOST_TOO_LARGE: f64 = 128.0;

impl Adaptive {
    /// Returns the size that the measurements lead to, which may be the current step.
    pub(super) fn fit(&self, evidence: &Evidence) -> Option<usize> {
        let (fits, low) = (self.fits(evidence)?, evidence.step);
        if wants_second(fits, evidence) {
            // Without: p95 +2.0 % cold, +2.9 % warm (range, counts, failures by chance).
            return Some(low / SECOND);
        }
        if fits <= low && needs_more(low, evidence) {
            // No figure: it saves a failure, see the test `less_memory_is_seen_before_it_fails`.
            return Some(fits);
        }
        if fits <= low {
            // Without: median +0.5 % to +3.7 % (counts: noise, rise, few items). Where one sample decides as
            // well: p95 +158 % cold (batch, counts, few items).
            return (!is_one(evidence)).then_some(low);
        }
        if failure_beyond(low, evidence).is_some_and(|high| high <= fits) {
            // Without: median +15.6 % cold, +16.9 % warm (batch, counts, noise).
            return None;
        }
        // Without: median +1.5 % cold, +2.6 % warm (batch, counts, noise).
        let is_noise = share(fits - low, low) <= self.tolerance / 2.0;
        Some(if is_noise { low } else { fits })
    }

    /// Returns the size that fits by a prediction if there is one, or else by the measurements.
    fn fits(&self, evidence: &Evidence) -> Option<usize> {
        if evidence.predicted.is_some() {
            return evidence.predicted;
        }
        let line = line(evidence)?;
        // Without headroom: median +0.7 % cold (range), +2.4 % warm (batch; counts, noise).
        let usable = bytes(evidence.available_bytes?) * (1.0 - self.headroom);
        Some(whole(line.size_at(usable).min(line.largest * reach(&line, evidence))))
    }
}

/// True if a smaller size should be measured to separate the bytes of every attempt from those of an item, because no
/// far larger size fits by the measurements. A batch must not be small.
fn wants_second(fits: usize, evidence: &Evidence) -> bool {
    let step = evidence.step;
    let is_small = step < evidence.cap && step / SECOND >= evidence.floor;
    is_one(evidence) && is_small && !is_batch(evidence) && fits < step.saturating_mul(2)
}

/// Returns the line through the measured bytes.
fn line(evidence: &Evidence) -> Option<Fit> {
    evidence.measurements.samples.bytes()
}

/// True if only one size was measured and there is no prediction. One sample does not separate the bytes of every
/// attempt from those of an item, so more may fit.
fn is_one(evidence: &Evidence) -> bool {
    evidence.predicted.is_none() && line(evidence).is_some_and(|line| line.points == 1)
}

/// Returns the factor on the largest measured size up to which a line is trusted. A single item often runs other
/// kernels than several, so its sample counts for little until there are two larger ones.
///
/// Always without bound: median +3.0 % cold (range, counts, few items).
fn reach(line: &Fit, evidence: &Evidence) -> f64 {
    let samples = evidence.measurements.samples.iter();
    let larger = samples.filter(|sample| sample.size > 1 && sample.bytes.is_some()).count();
    match (line.points, larger) {
        (1, 0) => 2.0,
        (2, 1) => 1.5,
        (1, _) => 16.0,
        _ => f64::INFINITY,
    }
}

/// True if nothing is known, neither from a cache nor from attempts of this call.
pub(super) fn is_cold(evidence: &Evidence) -> bool {
    evidence.step == evidence.cap
        && evidence.bounds.largest_success.is_none()
        && evidence.elapsed.is_none()
        && evidence.bounds.smallest_failure.is_none()
}

/// Returns the size of a cold call's first attempt.
pub(super) fn first(evidence: &Evidence) -> usize {
    let plenty = evidence.remaining / 8 >= evidence.cap;
    if plenty && measures_first(evidence) { (evidence.cap / SMALL).max(1) } else { evidence.step }
}

/// True if small attempts can show the bytes that a large one needs. A batch is one attempt, and must not be small.
pub(super) fn measures_first(evidence: &Evidence) -> bool {
    evidence.counts_bytes && !is_batch(evidence) && line(evidence).is_none()
}

/// Returns a size to measure after a failure: smaller still if far more was requested than is available. Without the
/// latter: p95 +3.0 % warm (range, counts, noise).
pub(super) fn small(evidence: &Evidence) -> usize {
    (evidence.size / SMALL).min(whole(most(evidence) / 4.0)).max(1)
}

/// Returns the largest halving of a failed size that fits in proportion, or the size itself if that is unknown.
///
/// Without: median +4.3 % cold (batch, counts, few items), p95 +3.8 % cold (batch, reads, shortage).
/// Only in a batch, because among pieces one item may need all these bytes.
pub(super) fn halving_that_fits(evidence: &Evidence) -> usize {
    let most = most(evidence);
    if !is_batch(evidence) || most < number(evidence.size) / MOST_TOO_LARGE {
        return evidence.size;
    }
    let halvings = std::iter::successors(Some(evidence.size), |&size| Some(size / 2));
    halvings.take_while(|&size| size > 0).find(|&size| number(size) <= most * IN_PROPORTION).unwrap_or(1)
}

/// Returns the size that fits after a failure if all bytes of the attempt are in proportion to its size.
fn most(evidence: &Evidence) -> f64 {
    let Some((requested, available)) = evidence.requested_bytes.zip(evidence.available_bytes) else {
        return f64::INFINITY;
    };
    let needed = requested.saturating_add(evidence.peak_bytes.unwrap_or_default());
    bytes(available) / bytes(needed) * number(evidence.size)
}
