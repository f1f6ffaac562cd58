//! Sizes from what worked and what failed: where to look next, and whether that is worth its risk.

use std::time::Duration;

use super::figures::{bytes, number, share};
use super::{Adaptive, Evidence};
use crate::policy::Line;

impl Adaptive {
    /// The size to look at next, between what works and what fails.
    pub(super) fn probe(&self, low: usize, high: Option<usize>, evidence: &Evidence) -> usize {
        let Some(high) = high else { return low.saturating_mul(2) };
        let gap = high - low;
        if has_risen(evidence) {
            high
        } else if gap > evidence.multiple_of && share(gap, low) > self.tolerance {
            low + (gap / 2).min(low)
        } else if self.is_old(evidence) {
            // Memory need not grow with the size: what fails again is passed over the next time.
            if evidence.record.confirmed.is_multiple_of(2) { high } else { high.saturating_add(high / 2) }
        } else {
            low
        }
    }

    /// Whether a larger size is worth its risk.
    pub(super) fn may_try(&self, goal: usize, evidence: &Evidence) -> bool {
        let is_batch = evidence.remaining == usize::MAX;
        let Some(line) = evidence.record.samples.seconds() else { return false };
        let cost = cost(goal, evidence, &line);
        let left = if is_batch { 0.0 } else { left(evidence.step, evidence, &line) };
        let record = &evidence.record;
        let allowed = self.waste * (record.time.as_secs_f64() + left) - record.wasted.as_secs_f64();
        let pays = evidence.remaining / 2 >= goal;
        let returns = !is_batch && (is_far(evidence) || has_worked(goal, evidence));
        pays && (cost <= allowed || returns && GAIN * gain(goal, evidence, &line) > cost)
    }
}

/// What share of a gain may be put at risk.
const GAIN: f64 = 0.5;

/// Whether what fails is so much larger than what works that a larger step is no probe of the limit,
/// but a return from having shrunk too far.
pub(super) fn is_far(evidence: &Evidence) -> bool {
    high(evidence).is_none_or(|high| high > evidence.step.saturating_add(evidence.step / 2))
}

/// What is known to fail: what did last, or before a smaller size failed that works again.
pub(super) fn high(evidence: &Evidence) -> Option<usize> {
    evidence.bounds.smallest_failure.or(evidence.record.ceiling)
}

/// Whether this size worked before something failed that had worked. Otherwise failures that come for no
/// reason would use up what may be wasted, and then make the size smaller and smaller.
fn has_worked(goal: usize, evidence: &Evidence) -> bool {
    evidence.record.ceiling.is_some() && evidence.bounds.smallest_failure.is_some_and(|failed| goal < failed)
}

/// Seconds that a failure at this size takes: as many as the last one, and more where it is larger than
/// what is known to fail.
fn cost(size: usize, evidence: &Evidence, line: &Line) -> f64 {
    let known = evidence.record.failure_cost;
    if known.is_zero() {
        return line.at(number(size));
    }
    let larger = high(evidence).map_or(1.0, |failed| share(size, failed));
    known.as_secs_f64() * larger.max(1.0)
}

/// Seconds that what is left takes in steps of this size.
fn left(step: usize, evidence: &Evidence, line: &Line) -> f64 {
    number(evidence.remaining) * line.at(number(step)).max(0.0) / number(step)
}

/// Seconds that a larger step saves on what is left. While only one size has been timed, half of its
/// time counts as what every attempt takes.
fn gain(goal: usize, evidence: &Evidence, line: &Line) -> f64 {
    let now = left(evidence.step, evidence, line);
    if line.points == 1 {
        now * 0.5 * (1.0 - share(evidence.step, goal))
    } else {
        now - left(goal, evidence, line)
    }
}

/// Successes, and time, before which no failure is doubted.
const CLEAN_RUNS: f64 = 16.0;
const AGE: Duration = Duration::from_secs(600);
/// Each doubt in vain makes the time to the next twice as long, up to so many times: half a day.
const LONGEST: u32 = 64;
/// So many times as many, and as long, where free memory can be seen, and has not risen; and at least
/// this share of those since the failure was found.
const SEEN: u32 = 64;
const SEEN_DOUBT: f64 = 0.75;

/// Attempts that must be left for a failure to be doubted because of those that succeeded: one more
/// failure is nothing for those, and most of what could be gained is still to come.
const WORTH_A_DOUBT: usize = 500;

impl Adaptive {
    /// Whether what is known to fail should be tried again.
    fn is_old(self, evidence: &Evidence) -> bool {
        let record = &evidence.record;
        // Memory that can be seen does not tell what disturbed a size that had worked.
        let (runs, share, longer) = if evidence.available_bytes.is_some() && record.ceiling.is_none() {
            (CLEAN_RUNS * f64::from(SEEN), self.doubt.max(SEEN_DOUBT), SEEN)
        } else {
            (CLEAN_RUNS, self.doubt, 2_u32.saturating_pow(record.confirmed).min(LONGEST))
        };
        let enough = runs.max(share * f64::from(record.known_runs));
        let is_worth_it = evidence.remaining / WORTH_A_DOUBT >= evidence.step;
        is_worth_it && f64::from(record.clean_runs) >= enough
            || record.failure_age >= AGE.saturating_mul(longer)
    }
}

/// Whether there is clearly more memory than when the failure was seen.
pub(super) fn has_risen(evidence: &Evidence) -> bool {
    let then = evidence.record.failure_available_bytes;
    then.zip(evidence.available_bytes)
        .is_some_and(|(then, now)| now > then && bytes(now - then) > bytes(then) / 10.0)
}
