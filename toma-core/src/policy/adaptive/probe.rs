//! Sizes from what worked and what failed: where to look next, and whether that is worth its risk.

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
        } else if self.is_old(evidence) {
            // Memory need not grow with the size: what fails again is passed over the next time.
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
        let left = if is_batch(evidence) { 0.0 } else { left(evidence.step, evidence, &line) };
        let measurements = &evidence.measurements;
        let allowed =
            self.waste * (measurements.time.as_secs_f64() + left) - measurements.wasted.as_secs_f64();
        let pays = to_come(evidence, &line) / 2 >= goal.min(evidence.cap);
        pays && (cost <= allowed || self.stake(goal, evidence, &line) > cost)
    }

    /// Seconds that may be put at risk for what a larger size saves, whatever probes have wasted.
    fn stake(&self, goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
        if is_far(evidence) || has_worked(goal, evidence) {
            GAIN * odds(goal, evidence) * gain(goal, evidence, line)
        } else if is_batch(evidence) {
            // A share of what is to come is nothing to go by where nobody knows how much that is: what is
            // found has to be worth its price instead.
            (self.waste / WASTE).min(1.0) * expected_gain(goal, evidence, line)
        } else {
            0.0
        }
    }
}

/// How much likelier than not a size works where what fails is far: any power of what works is as likely to
/// be the limit as any other.
fn odds(goal: usize, evidence: &Evidence) -> f64 {
    let times = |size: usize| share(size, evidence.step).log2();
    let fails = high(evidence).map_or(1.0, |high| times(goal) / times(high));
    ((1.0 - fails) / fails).max(1.0)
}

/// Seconds that a larger step saves, in proportion to the chance that it works.
fn expected_gain(goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
    if high(evidence).is_none_or(|high| goal < high) {
        return GAIN * gain(goal, evidence, line);
    }
    // What has been as it was for some time changes within a share of that time with about that chance;
    // and where it changes by little, little is to be gained.
    let measurements = &evidence.measurements;
    let chance = if has_risen(evidence) {
        GAIN
    } else if line.points > 1 {
        f64::from(measurements.clean_runs) / f64::from(measurements.known_runs.max(1))
    } else {
        // Again and again, for a gain that is only guessed.
        0.0
    };
    chance * gain(evidence.step.saturating_mul(2), evidence, line)
}

/// Whether nobody knows how much is to come.
pub(super) fn is_batch(evidence: &Evidence) -> bool {
    evidence.remaining == usize::MAX
}

/// What share of a gain may be put at risk.
const GAIN: f64 = 0.5;
/// Who lets probes waste less than this lets them risk less in proportion.
const WASTE: f64 = 0.02;

/// Whether what fails is so much larger than what works that a larger step is no probe of the limit,
/// but a return from having shrunk too far.
pub(super) fn is_far(evidence: &Evidence) -> bool {
    high(evidence).is_none_or(|high| high > evidence.step.saturating_add(evidence.step / 2))
}

/// What is known to fail: what did last, or before a smaller size failed that works again.
pub(super) fn high(evidence: &Evidence) -> Option<usize> {
    evidence.bounds.smallest_failure.or(evidence.measurements.ceiling)
}

/// Whether this size worked before something failed that had worked. Otherwise failures that come for no
/// reason would use up what may be wasted, and then make the size smaller and smaller.
fn has_worked(goal: usize, evidence: &Evidence) -> bool {
    evidence.measurements.ceiling.is_some()
        && evidence.bounds.smallest_failure.is_some_and(|failed| goal < failed)
}

/// Seconds that a failure at this size takes: as many as the last one, and more where it is larger than
/// what is known to fail.
fn cost(size: usize, evidence: &Evidence, line: &Fit) -> f64 {
    let known = evidence.measurements.failure_cost;
    if known.is_zero() {
        return line.at(number(size));
    }
    let larger = high(evidence).map_or(1.0, |failed| share(size, failed));
    known.as_secs_f64() * larger.max(1.0)
}

/// Seconds that what is left takes in steps of this size. In a batch as many items are thought to come as
/// there have been: as long as that took, in steps of the size in force.
fn left(step: usize, evidence: &Evidence, line: &Fit) -> f64 {
    if is_batch(evidence) {
        evidence.measurements.time.as_secs_f64() * line.per_item(step)
            / line.per_item(evidence.step).max(f64::MIN_POSITIVE)
    } else {
        number(evidence.remaining) * line.per_item(step)
    }
}

/// Items that are thought to come: what is left of the call, or as many as there have been if those are
/// more, because a place may be called again and again for little at a time.
fn to_come(evidence: &Evidence, line: &Fit) -> usize {
    evidence.remaining.max(so_far(evidence, line))
}

/// Items that there have been, in calls of this place together.
fn so_far(evidence: &Evidence, line: &Fit) -> usize {
    let attempts =
        evidence.measurements.time.as_secs_f64() / line.at(number(evidence.step)).max(f64::MIN_POSITIVE);
    whole(attempts * number(evidence.step))
}

/// Seconds that a larger step saves on what is left. While only one size has been timed, half of its
/// time counts as what every attempt takes.
fn gain(goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
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

/// Attempts that must be left, or twice as many have been, for a failure to be doubted because of those that
/// succeeded: one more failure is nothing for those, and most of what could be gained is still to come.
const WORTH_A_DOUBT: usize = 500;

impl Adaptive {
    /// Whether one more failure is nothing beside what could be gained.
    fn is_worth_a_doubt(&self, evidence: &Evidence) -> bool {
        if is_far(evidence) {
            // What lies below it comes first.
            return false;
        }
        let Some(line) = evidence.measurements.samples.seconds() else { return false };
        if !is_batch(evidence) {
            let items = evidence.remaining.max(so_far(evidence, &line) / 2);
            return items / WORTH_A_DOUBT >= evidence.step;
        }
        let goal = high(evidence).unwrap_or(evidence.step);
        self.stake(goal, evidence, &line) > cost(goal, evidence, &line)
    }

    /// Whether what is known to fail should be tried again.
    fn is_old(self, evidence: &Evidence) -> bool {
        let measurements = &evidence.measurements;
        // Memory that can be seen does not tell what disturbed a size that had worked.
        let (runs, share, longer) = if evidence.available_bytes.is_some() && measurements.ceiling.is_none() {
            (CLEAN_RUNS * f64::from(SEEN), self.doubt.max(SEEN_DOUBT), SEEN)
        } else {
            (CLEAN_RUNS, self.doubt, 2_u32.saturating_pow(measurements.confirmed).min(LONGEST))
        };
        let enough = runs.max(share * f64::from(measurements.known_runs));
        f64::from(measurements.clean_runs) >= enough && self.is_worth_a_doubt(evidence)
            || measurements.failure_age >= AGE.saturating_mul(longer)
    }
}

/// Whether there is clearly more memory than when the failure was seen.
pub(in crate::policy) fn has_risen(evidence: &Evidence) -> bool {
    let then = evidence.measurements.failure_available_bytes;
    then.zip(evidence.available_bytes)
        .is_some_and(|(then, now)| now > then && bytes(now - then) > bytes(then) / 10.0)
}
