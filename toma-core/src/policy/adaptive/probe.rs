//! Sizes from what worked and what failed: where to probe next, and whether that is worth its risk.
//!
//! Seconds are those of the line `s(n) = a + b * n` through the measured times, `low` is the step in force,
//! `high` the known failure, and `goal` the size to try.
//!
//! | figure | formula |
//! |---|---|
//! | cost of a failure | that of the last one, times `goal / high` where that is more than 1; `s(goal)` before any |
//! | seconds left in steps of `n` | `remaining * s(n) / n`; in a batch `time * (s(n) / n) / (s(low) / low)` |
//! | gain | seconds left in steps of `low` less those in steps of `goal` |
//! | odds, far from `high` | `(1 - p) / p` with `p = log(goal / low) / log(high / low)`, at least 1 |
//! | allowed by waste | `waste * (time + seconds left) - wasted` |
//! | allowed where `high` is far | `odds * gain / 2` |
//! | allowed in a batch | `chance * gain`, times `waste / 0.02` where that is less than 1 |
//!
//! # Why
//!
//! Waste is bounded by time and not by number: a failure costs as much as it takes. Only time in attempts
//! counts, so a night without work pays for nothing.
//!
//! A failure is doubted in proportion to its age. So a rise that nothing shows is found within a twentieth
//! of the time it took to come. The number of failures grows with the logarithm of the work.
//!
//! A batch does not say how much is to come, so as much as there has been is the guess. The first calls,
//! which may be all there are, risk nothing.

use std::time::Duration;

use super::{Adaptive, Evidence};
use crate::policy::Fit;
use crate::policy::figures::{bytes, number, share, whole};

impl Adaptive {
    /// The size to look at next, between what works and what fails.
    pub(super) fn probe(&self, low: usize, high: Option<usize>, evidence: &Evidence) -> usize {
        let Some(high) = high else { return low.saturating_mul(2) };
        let gap = high - low;
        let middle = low + (gap / 2).min(low);
        let is_wide = gap > evidence.multiple_of && share(gap, low) > self.tolerance;
        if has_risen(evidence) {
            high
        } else if is_wide && self.may_try(middle, evidence) {
            middle
        } else if self.has_expired(evidence) {
            // Memory need not grow with the size, so a failure that is confirmed is passed over next time.
            if evidence.measurements.confirmed.is_multiple_of(2) {
                high
            } else {
                high.saturating_add(high / 2)
            }
        } else {
            low
        }
    }

    /// Whether a larger size is worth its risk.
    pub(super) fn may_try(&self, goal: usize, evidence: &Evidence) -> bool {
        let Some(line) = evidence.measurements.samples.seconds() else { return false };
        let cost = cost(goal, evidence, &line);
        let left = if is_batch(evidence) { 0.0 } else { seconds_left(evidence.step, evidence, &line) };
        let measurements = &evidence.measurements;
        let allowed =
            self.waste * (measurements.time.as_secs_f64() + left) - measurements.wasted.as_secs_f64();
        let pays = items_to_come(evidence, &line) / 2 >= goal.min(evidence.cap);
        pays && (cost <= allowed || self.stake(goal, evidence, &line) > cost)
    }

    /// Seconds that a larger size may risk for what it saves, whatever probes have wasted.
    fn stake(&self, goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
        if is_far(evidence) || has_worked(goal, evidence) {
            GAIN * odds(goal, evidence) * gain(goal, evidence, line)
        } else if is_batch(evidence) {
            // How much is to come is unknown, so a share of it is no bound: a size has to be worth its price.
            (self.waste / WASTE).min(1.0) * expected_gain(goal, evidence, line)
        } else {
            0.0
        }
    }
}

/// The share of a gain that may be put at risk.
const GAIN: f64 = 0.5;
/// A smaller allowed waste lowers the risk in proportion.
const WASTE: f64 = 0.02;

/// How much likelier than not a size works where the failure is far: the limit is as likely at any power of
/// what works.
fn odds(goal: usize, evidence: &Evidence) -> f64 {
    let times = |size: usize| share(size, evidence.step).log2();
    let fails = high(evidence).map_or(1.0, |high| times(goal) / times(high));
    ((1.0 - fails) / fails).max(1.0)
}

/// Seconds that a larger step saves in a batch, times the chance that it works.
fn expected_gain(goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
    if high(evidence).is_none_or(|high| goal < high) {
        return GAIN * gain(goal, evidence, line);
    }
    // Within a share of the time that memory has stayed the same, it changes with about that chance.
    let measurements = &evidence.measurements;
    let chance = if has_risen(evidence) {
        GAIN
    } else if line.points > 1 {
        f64::from(measurements.clean_runs) / f64::from(measurements.known_runs.max(1))
    } else {
        // The gain is a guess, and would be made again and again.
        0.0
    };
    chance * gain(evidence.step.saturating_mul(2), evidence, line)
}

/// Whether it is unknown how much is to come.
pub(super) fn is_batch(evidence: &Evidence) -> bool {
    evidence.remaining == usize::MAX
}

/// Whether the known failure is so much larger than what works that a larger step is a return from having
/// shrunk too far, and no probe of the limit.
pub(super) fn is_far(evidence: &Evidence) -> bool {
    high(evidence).is_none_or(|high| high > evidence.step.saturating_add(evidence.step / 2))
}

/// The size known to fail: the last one, or the one before a smaller size failed that works again.
pub(super) fn high(evidence: &Evidence) -> Option<usize> {
    evidence.bounds.smallest_failure.or(evidence.measurements.ceiling)
}

/// Whether this size worked before something failed that had worked. Otherwise failures without a reason
/// would use up the allowed waste, and then lower the size more and more.
fn has_worked(goal: usize, evidence: &Evidence) -> bool {
    evidence.measurements.ceiling.is_some()
        && evidence.bounds.smallest_failure.is_some_and(|failed| goal < failed)
}

/// Seconds that a failure at this size takes.
fn cost(size: usize, evidence: &Evidence, line: &Fit) -> f64 {
    let known = evidence.measurements.failure_cost;
    if known.is_zero() {
        return line.at(number(size));
    }
    let larger = high(evidence).map_or(1.0, |failed| share(size, failed));
    known.as_secs_f64() * larger.max(1.0)
}

/// Seconds that the rest takes in steps of this size. In a batch as many items are expected as there have
/// been.
fn seconds_left(step: usize, evidence: &Evidence, line: &Fit) -> f64 {
    if is_batch(evidence) {
        evidence.measurements.time.as_secs_f64() * line.per_item(step)
            / line.per_item(evidence.step).max(f64::MIN_POSITIVE)
    } else {
        number(evidence.remaining) * line.per_item(step)
    }
}

/// Items that are expected: the rest of the call, or as many as there have been if those are more, because a
/// place may be called again and again for little at a time.
fn items_to_come(evidence: &Evidence, line: &Fit) -> usize {
    evidence.remaining.max(items_so_far(evidence, line))
}

/// Items that there have been, in all calls of this place.
fn items_so_far(evidence: &Evidence, line: &Fit) -> usize {
    let attempts =
        evidence.measurements.time.as_secs_f64() / line.at(number(evidence.step)).max(f64::MIN_POSITIVE);
    whole(attempts * number(evidence.step))
}

/// Seconds that a larger step saves on the rest. While only one size has been timed, half of its time counts
/// as the fixed part of every attempt.
fn gain(goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
    let now = seconds_left(evidence.step, evidence, line);
    if line.points == 1 {
        now * 0.5 * (1.0 - share(evidence.step, goal))
    } else {
        now - seconds_left(goal, evidence, line)
    }
}

/// Successes, and time, before which no failure is doubted.
const CLEAN_RUNS: f64 = 16.0;
const AGE: Duration = Duration::from_secs(600);
/// Each doubt that fails doubles the time to the next, up to this many times: half a day.
const LONGEST: u32 = 64;
/// This many times as many successes, and as long, where free memory can be read and has not risen; and at
/// least this share of the successes since the failure was found.
const VISIBLE: u32 = 64;
const VISIBLE_DOUBT: f64 = 0.75;

/// Attempts that must be left, or half of those that have been, for a doubt by count: one failure is little
/// beside them, and most of the gain is still to come.
const WORTH_A_DOUBT: usize = 500;

impl Adaptive {
    /// Whether one more failure is little beside the possible gain.
    fn is_worth_a_doubt(&self, evidence: &Evidence) -> bool {
        if is_far(evidence) {
            // The sizes below the failure come first.
            return false;
        }
        let Some(line) = evidence.measurements.samples.seconds() else { return false };
        if !is_batch(evidence) {
            let items = evidence.remaining.max(items_so_far(evidence, &line) / 2);
            return items / WORTH_A_DOUBT >= evidence.step;
        }
        let goal = high(evidence).unwrap_or(evidence.step);
        self.stake(goal, evidence, &line) > cost(goal, evidence, &line)
    }

    /// Whether the known failure should be tried again.
    fn has_expired(self, evidence: &Evidence) -> bool {
        let measurements = &evidence.measurements;
        // Visible memory does not tell what disturbed a size that had worked.
        let is_visible = evidence.available_bytes.is_some() && measurements.ceiling.is_none();
        let (runs, share, longer) = if is_visible {
            (CLEAN_RUNS * f64::from(VISIBLE), self.doubt.max(VISIBLE_DOUBT), VISIBLE)
        } else {
            (CLEAN_RUNS, self.doubt, 2_u32.saturating_pow(measurements.confirmed).min(LONGEST))
        };
        let enough = runs.max(share * f64::from(measurements.known_runs));
        f64::from(measurements.clean_runs) >= enough && self.is_worth_a_doubt(evidence)
            || measurements.failure_age >= AGE.saturating_mul(longer)
    }
}

/// Whether free memory has risen by a tenth since the failure.
pub(in crate::policy) fn has_risen(evidence: &Evidence) -> bool {
    has_risen_since(evidence.measurements.failure_available_bytes, evidence)
}

/// Whether free memory has risen by a tenth since so much of it was available.
pub(in crate::policy) fn has_risen_since(then: Option<u64>, evidence: &Evidence) -> bool {
    then.zip(evidence.available_bytes)
        .is_some_and(|(then, now)| now > then && bytes(now - then) > bytes(then) / 10.0)
}
