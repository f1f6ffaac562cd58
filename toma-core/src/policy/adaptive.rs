use std::time::Duration;

use super::{Evidence, Line, Measures, Policy};

/// Finds the largest size that works, and keeps it right while memory changes: the recommended policy.
///
/// It shrinks fast on the first failure, then looks for the best size between the largest success and
/// the smallest failure, and grows again when a failure is old, when many attempts have succeeded
/// since, or when free memory has risen. Where the memory source counts what is allocated
/// ([`MemorySource::usage`](crate::memory::MemorySource::usage)) it starts small, measures what an item
/// needs, and jumps to the size that fits. A probe is a real piece of the work, so one that succeeds
/// costs nothing; probes that fail may waste a bounded share of the time. In `range`, `chunked`, `map`
/// and `fold` it moves within one call; in `batch` from call to call.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::Adaptive;
///
/// let default = Adaptive::default();
/// let careful = Adaptive::default().waste(0.005).headroom(0.1);
/// assert_ne!(default, careful);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    waste: f64,
    tolerance: f64,
    headroom: f64,
}

impl Adaptive {
    /// Probes that fail waste at most this share of the time spent and left; 0.02 unless told.
    ///
    /// Growing back after a shrink that went too far is no probe: while what fails is more than half as
    /// large again as what works, a larger step is tried when half of what it would save exceeds the
    /// cost of its failing.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn waste(self, share: f64) -> Self {
        Self { waste: fraction("waste", share), ..self }
    }

    /// Stops looking when the gap between what works and what fails is at most this share of what
    /// works; 0.05 unless told.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn tolerance(self, share: f64) -> Self {
        Self { tolerance: fraction("tolerance", share), ..self }
    }

    /// Leaves this share of the available bytes free when it predicts a size; 0.01 unless told.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn headroom(self, share: f64) -> Self {
        Self { headroom: fraction("headroom", share), ..self }
    }
}

fn fraction(name: &str, share: f64) -> f64 {
    assert!((0.0..=1.0).contains(&share), "adaptive {name} {share}: must be between 0 and 1");
    share
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { waste: 0.02, tolerance: 0.05, headroom: 0.01 }
    }
}

impl Policy for Adaptive {
    fn shrink(&self, evidence: &Evidence) -> usize {
        let size = evidence.size;
        if let Some(works) = evidence.bounds.largest_success.filter(|&works| works < size) {
            return works;
        }
        if let Some(fits) = self.fits(evidence).filter(|&fits| fits < size) {
            return fits;
        }
        if measures_first(evidence) {
            return small(evidence).min(size - 1);
        }
        // The more has failed, the farther away is what works: look far down, and grow back.
        size >> evidence.record.failures.clamp(1, FASTEST)
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        if is_cold(evidence) {
            return first(evidence);
        }
        if evidence.record.is_thrashing() {
            return below(evidence);
        }
        if evidence.size <= evidence.step / 2 && evidence.elapsed.is_some() {
            // A rest is no evidence for a full size.
            return evidence.step;
        }
        match self.goal(evidence) {
            Goal::Predicted(size) => size,
            Goal::Probe(size) if self.may_try(size, evidence) => size,
            Goal::Probe(_) => evidence.step,
        }
    }

    fn measures(&self) -> Measures {
        Measures::TIME_AND_MEMORY
    }
}

/// What is known to work below the step in force, or half of it.
pub(super) fn below(evidence: &Evidence) -> usize {
    let works = evidence.bounds.largest_success.filter(|&works| works < evidence.step);
    works.unwrap_or(evidence.step / 2)
}

/// The fastest shrink while nothing is known to work, as a power of two.
const FASTEST: u32 = 3;

/// The share of a size that is small enough to fit nearly always.
const SMALL: usize = 64;

/// A prediction is trusted up to so many times the largest size it was measured at.
const REACH_OF_ONE: f64 = 16.0;
const REACH: f64 = 64.0;

/// Only one size was measured.
fn is_one(evidence: &Evidence) -> bool {
    evidence.record.samples.bytes().is_some_and(|line| line.points == 1)
}

/// A second size is measured at this part of the first, or at so many times it.
const SECOND: usize = 4;

/// The second size to measure. One alone does not tell what every attempt needs from what an item
/// adds, so it `fits` less than it seems; where even that is far, nothing need be measured for it.
fn second(fits: usize, evidence: &Evidence) -> Option<usize> {
    let (step, floor) = (evidence.step, evidence.floor);
    let no_need = step >= evidence.cap || evidence.remaining == usize::MAX;
    if !is_one(evidence) || no_need || fits >= step.saturating_mul(2) {
        return None;
    }
    let larger = step.saturating_mul(SECOND);
    let is_free = evidence.bounds.smallest_failure.is_none_or(|high| larger < high);
    if step / SECOND >= floor { Some(step / SECOND) } else { Some(larger).filter(|_| is_free) }
}

/// Nothing is known at all: not from a cache, nor from attempts of this call.
fn is_cold(evidence: &Evidence) -> bool {
    evidence.step == evidence.cap
        && evidence.bounds.largest_success.is_none()
        && evidence.elapsed.is_none()
        && evidence.bounds.smallest_failure.is_none()
}

/// Whether small attempts can tell what a large one needs. A batch is one attempt, and must not be small.
fn measures_first(evidence: &Evidence) -> bool {
    evidence.counts_bytes && evidence.remaining != usize::MAX && evidence.record.samples.bytes().is_none()
}

/// A size to measure after a failure: smaller still where far more was asked for than there is.
fn small(evidence: &Evidence) -> usize {
    let lacking = evidence.requested_bytes.zip(evidence.available_bytes);
    let most =
        lacking.map_or(f64::INFINITY, |(asked, had)| bytes(had) / bytes(asked) * number(evidence.size));
    (evidence.size / SMALL).min(whole(most / 4.0)).max(1)
}

fn first(evidence: &Evidence) -> usize {
    let plenty = evidence.remaining / 8 >= evidence.cap;
    if plenty && measures_first(evidence) { (evidence.cap / SMALL).max(1) } else { evidence.step }
}

/// A size to try.
#[derive(Clone, Copy, Debug)]
enum Goal {
    /// The measurements say that it fits.
    Predicted(usize),
    /// Whether it fits is to be found out.
    Probe(usize),
}

impl Adaptive {
    /// The size to use next, if the risk allows.
    fn goal(&self, evidence: &Evidence) -> Goal {
        let low = evidence.step;
        let high = evidence.bounds.smallest_failure.filter(|&high| high > low);
        if let Some(fits) = self.fits(evidence) {
            if let Some(second) = second(fits, evidence) {
                return Goal::Predicted(second);
            }
            if fits <= low && (needs_more(low, evidence) || !is_one(evidence)) {
                return Goal::Predicted(if needs_more(low, evidence) { fits } else { low });
            }
            if fits > low && high.is_none_or(|high| fits < high || has_risen(evidence)) {
                return self.predicted(fits, evidence);
            }
        }
        Goal::Probe(self.probe(low, high, evidence))
    }

    /// A larger size that is said to fit. Near one that fails, that has to be found out like any other;
    /// and differences as small as the noise of the measurements are none.
    fn predicted(&self, fits: usize, evidence: &Evidence) -> Goal {
        let low = evidence.step;
        if share(fits - low, low) <= self.tolerance / 2.0 {
            Goal::Predicted(low)
        } else if is_far(evidence) || has_risen(evidence) {
            Goal::Predicted(fits)
        } else {
            Goal::Probe(fits)
        }
    }

    /// The size to look at next, between what works and what fails.
    fn probe(&self, low: usize, high: Option<usize>, evidence: &Evidence) -> usize {
        let Some(high) = high else { return low.saturating_mul(2) };
        let gap = high - low;
        if has_risen(evidence) {
            high
        } else if gap > evidence.multiple_of && share(gap, low) > self.tolerance {
            low + (gap / 2).min(low)
        } else if is_old(evidence) {
            // Memory need not grow with the size: what fails again is passed over the next time.
            if evidence.record.confirmed.is_multiple_of(2) { high } else { high.saturating_add(high / 2) }
        } else {
            low
        }
    }

    /// The size that the measurements say fits, if there are any.
    fn fits(&self, evidence: &Evidence) -> Option<usize> {
        let line = evidence.record.samples.bytes()?;
        let usable = bytes(evidence.available_bytes?) * (1.0 - self.headroom);
        let reach = if line.points == 1 { REACH_OF_ONE } else { REACH };
        let fits = line.size_at(usable).min(line.largest * reach);
        Some(whole(fits))
    }

    /// Whether a larger size is worth its risk.
    fn may_try(&self, goal: usize, evidence: &Evidence) -> bool {
        let is_batch = evidence.remaining == usize::MAX;
        let Some(line) = evidence.record.samples.seconds() else { return false };
        let cost = cost(goal, evidence, &line);
        let left = if is_batch { 0.0 } else { left(evidence.step, evidence, &line) };
        let record = &evidence.record;
        let allowed = self.waste * (record.time.as_secs_f64() + left) - record.wasted.as_secs_f64();
        let pays = evidence.remaining / 2 >= goal;
        pays && (cost <= allowed
            || !is_batch && is_far(evidence) && GAIN * gain(goal, evidence, &line) > cost)
    }
}

/// What share of a gain may be put at risk.
const GAIN: f64 = 0.5;

/// Whether what fails is so much larger than what works that a larger step is no probe of the limit,
/// but a return from having shrunk too far.
fn is_far(evidence: &Evidence) -> bool {
    evidence.bounds.smallest_failure.is_none_or(|high| high > evidence.step.saturating_add(evidence.step / 2))
}

/// Seconds that a failure at this size takes.
fn cost(size: usize, evidence: &Evidence, line: &Line) -> f64 {
    let known = evidence.record.failure_cost;
    if known.is_zero() { line.at(number(size)) } else { known.as_secs_f64() }
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

/// Whether the size in force needs more than there is, by what was measured at such sizes.
fn needs_more(size: usize, evidence: &Evidence) -> bool {
    let line = evidence.record.samples.bytes();
    line.zip(evidence.available_bytes)
        .is_some_and(|(line, available)| line.at(number(size)) > bytes(available))
}

/// Successes, and time, after which a failure is doubted for the first time.
const CLEAN_RUNS: u32 = 64;
const AGE: Duration = Duration::from_secs(600);
/// So many times as long where free memory can be seen, and has not risen.
const SEEN: u32 = 16;

/// Whether what is known to fail should be tried again. Each time in vain makes the time to the
/// next four times as long.
fn is_old(evidence: &Evidence) -> bool {
    let record = &evidence.record;
    let patience = 4_u32.saturating_pow(record.confirmed);
    let patience = if evidence.available_bytes.is_some() { patience.saturating_mul(SEEN) } else { patience };
    let (runs, age) = (CLEAN_RUNS.saturating_mul(patience), AGE.saturating_mul(patience));
    record.clean_runs >= runs || record.failure_age >= age
}

/// Whether there is clearly more memory than when the failure was seen.
fn has_risen(evidence: &Evidence) -> bool {
    let then = evidence.record.failure_available_bytes;
    then.zip(evidence.available_bytes)
        .is_some_and(|(then, now)| now > then && bytes(now - then) > bytes(then) / 10.0)
}

fn share(part: usize, whole: usize) -> f64 {
    number(part) / number(whole)
}

#[expect(clippy::cast_precision_loss, reason = "sizes are estimates here")]
fn number(size: usize) -> f64 {
    size as f64
}

#[expect(clippy::cast_precision_loss, reason = "bytes are estimates here")]
fn bytes(bytes: u64) -> f64 {
    bytes as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, and the engine bounds the size"
)]
fn whole(size: f64) -> usize {
    size as usize
}
