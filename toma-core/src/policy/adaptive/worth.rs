//! Decides if a larger size is worth its risk.
//!
//! Seconds are taken from the line `s(n) = a + b * n` through the measured times, `low` is the current step, `high` the
//! known failure, and `goal` the size to try.
//!
//! | figure | formula |
//! |---|---|
//! | cost of a failure | that of the last one; `s(goal)` before any |
//! | seconds left in steps of `n` | `remaining * s(n) / n`; in a batch `time * (s(n) / n) / (s(low) / low)` |
//! | gain | seconds left in steps of `low` less those in steps of `goal`; of `2 * low` near `high` and from there on |
//! | budget | `waste * (time + seconds left) - wasted`; in a batch nothing is known to be left |
//! | odds, far from `high` | `(1 - p) / p / 2` with `p = log(goal / low) / log(high / low)`, at least a half |
//! | odds, near `high` in a batch | a half; from `high` on the share of the time for which nothing has failed, or a half where memory has risen |
//! | tried | where the cost is within the budget, or less than `odds * gain` |

use super::{Adaptive, Evidence};
use crate::policy::Fit;
use crate::policy::facts::{failure, has_risen, is_batch, is_far};
use crate::policy::figures::{number, share, whole};

/// The share of a gain that may be put at risk.
///
/// Where the budget alone decides: p95 +45 % cold (range, none, few items), and a batch takes 13 times as long
/// at p95 (none, shortage).
const GAIN: f64 = 0.5;
/// An allowed waste below this lowers the risk of a batch in proportion.
const WASTE: f64 = 0.02;

impl Adaptive {
    /// True if a larger size is worth its risk.
    pub(super) fn may_try(&self, goal: usize, evidence: &Evidence) -> bool {
        let Some(line) = evidence.measurements.samples.seconds() else { return false };
        cost(goal, evidence, &line) <= self.budget(evidence, &line) || self.pays(goal, evidence, &line)
    }

    /// Returns the seconds that failures may waste now.
    fn budget(&self, evidence: &Evidence, line: &Fit) -> f64 {
        let measurements = &evidence.measurements;
        let left = if is_batch(evidence) { 0.0 } else { seconds_left(evidence.step, evidence, line) };
        self.waste * (measurements.time.as_secs_f64() + left) - measurements.wasted.as_secs_f64()
    }

    /// True if the time that a larger size saves is worth its risk, however much probes have wasted.
    pub(super) fn pays(&self, goal: usize, evidence: &Evidence, line: &Fit) -> bool {
        let odds = self.odds(goal, evidence, line);
        // If the failure has passed, a step of twice the size is soon reached. Without: a limit that doubles after 400
        // calls is found after 28 more at p95 (batch, none), not 18.
        let is_again = !is_far(evidence) && failure(evidence).is_some_and(|high| high <= goal);
        let reached = if is_again { evidence.step.saturating_mul(2) } else { goal };
        odds * gain(reached, evidence, line) > cost(goal, evidence, line)
    }

    /// Returns how much likelier than not a size works, times the share of a gain that may be put at risk.
    fn odds(&self, goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
        if is_far(evidence) || has_worked(goal, evidence) {
            return GAIN * odds_far(goal, evidence);
        }
        if !is_batch(evidence) {
            return 0.0;
        }
        // The work to come is unknown, so a share of it is no bound: a size has to be worth its price.
        let odds =
            if failure(evidence).is_none_or(|high| goal < high) { GAIN } else { odds_again(evidence, line) };
        (self.waste / WASTE).min(1.0) * odds
    }
}

/// If the failure is far, the limit is taken to be as likely at any power of the size that works.
///
/// Without: p95 +7.1 % warm (range, none, few items).
fn odds_far(goal: usize, evidence: &Evidence) -> f64 {
    let times = |size: usize| share(size, evidence.step).log2();
    let fails = failure(evidence).map_or(1.0, |high| times(goal) / times(high));
    ((1.0 - fails) / fails).max(1.0)
}

/// Within a share of the time for which memory has stayed the same, it changes with about that chance.
fn odds_again(evidence: &Evidence, line: &Fit) -> f64 {
    if has_risen(evidence) {
        // Without: p95 +2.0 % cold (batch, dry run, shortage).
        return GAIN;
    }
    if line.points == 1 {
        // The gain is a guess, and would be guessed again and again. Without: median +1.5 % cold (batch, none).
        return 0.0;
    }
    let measurements = &evidence.measurements;
    // With a half always: median +1.5 % cold (batch, none).
    f64::from(measurements.clean_runs) / f64::from(measurements.known_runs.max(1))
}

/// True if this size worked before a smaller size failed that had worked. Otherwise failures without a reason would use
/// up the allowed waste, and then lower the size more and more.
///
/// Without: p95 +10 % cold (range, dry run, failures by chance).
fn has_worked(goal: usize, evidence: &Evidence) -> bool {
    evidence.measurements.ceiling.is_some()
        && evidence.bounds.smallest_failure.is_some_and(|failed| goal < failed)
}

/// Returns the seconds that a failure at this size takes. Without the cost of the last one: median +15 % cold (range,
/// none, short calls).
fn cost(size: usize, evidence: &Evidence, line: &Fit) -> f64 {
    let known = evidence.measurements.failure_cost;
    if known.is_zero() { line.at(number(size)) } else { known.as_secs_f64() }
}

/// Returns the seconds that the remaining work takes in steps of this size. In a batch as much work is expected as has
/// been done.
fn seconds_left(step: usize, evidence: &Evidence, line: &Fit) -> f64 {
    if is_batch(evidence) {
        evidence.measurements.time.as_secs_f64() * line.per_item(step)
            / line.per_item(evidence.step).max(f64::MIN_POSITIVE)
    } else {
        number(evidence.remaining) * line.per_item(step)
    }
}

/// Returns the number of items so far, in all calls of this call site.
pub(super) fn items_so_far(evidence: &Evidence, line: &Fit) -> usize {
    let attempts =
        evidence.measurements.time.as_secs_f64() / line.at(number(evidence.step)).max(f64::MIN_POSITIVE);
    whole(attempts * number(evidence.step))
}

/// Returns the seconds that a larger step saves on the remaining work. While only one size has been timed, half of its
/// time counts as the fixed part of every attempt. Without: median +26 % cold (batch, none, few items).
fn gain(goal: usize, evidence: &Evidence, line: &Fit) -> f64 {
    let now = seconds_left(evidence.step, evidence, line);
    if line.points == 1 {
        now * 0.5 * (1.0 - share(evidence.step, goal))
    } else {
        now - seconds_left(goal, evidence, line)
    }
}
