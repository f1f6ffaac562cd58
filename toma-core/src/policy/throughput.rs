use super::adaptive::{below, has_risen, needs_more};
use super::{Adaptive, Evidence, Needs, Policy, Sample};

/// Uses the smallest size that works off as many items per second as any, within a tolerance.
///
/// More items at once stop paying once the device is busy: beyond that they only need memory. The
/// work itself is the measurement: each size is tried on real pieces, starting from the largest and
/// halving while nothing is lost. Where the largest size that works is the only one fast enough, more
/// would be faster still: then it looks for the limit, and follows it, as [`Adaptive`] does. In `range`,
/// `chunked`, `map` and `fold` it moves within one call; in `batch` from call to call, where it takes for
/// granted that a batch works off as many items as its size says. A size that has failed counts again
/// when the `device` has clearly more memory free than it had then.
///
/// A size at which the allocator has to release its cached memory and try again in two attempts in a
/// row is thrashing, and counts as too large even though it succeeds.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::Throughput;
///
/// let default = Throughput::default();           // within 5 % of the best items per second
/// assert_ne!(default, Throughput::within(0.01));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    tolerance: f64,
}

impl Throughput {
    /// Accepts `tolerance` less than the best items per second, as a share of it.
    ///
    /// # Panics
    /// When `tolerance` is not at least 0 and less than 1.
    pub fn within(tolerance: f64) -> Self {
        assert!(
            (0.0..1.0).contains(&tolerance),
            "throughput tolerance {tolerance}: must be at least 0 and less than 1"
        );
        Self { tolerance }
    }

    /// The size to use next, by the sizes measured so far.
    fn choose(self, evidence: &Evidence) -> Option<usize> {
        let samples = || evidence.measurements.samples.iter().filter(|sample| sample.size <= limit(evidence));
        let rate = |sample: &Sample| sample.rate().unwrap_or_default();
        let best = samples().map(|sample| rate(&sample)).max_by(f64::total_cmp)?;
        let fast = samples().find(|sample| rate(sample) >= best * (1.0 - self.tolerance))?.size;
        let (smallest, largest) = (samples().next()?.size, samples().last()?.size);
        if fast == largest
            && let Some(larger) = self.larger(fast, smallest, evidence)
        {
            return Some(larger);
        }
        if fast == smallest && may_try(fast / 2, evidence) { Some(fast / 2) } else { Some(fast) }
    }

    /// A size beyond the fastest, which is the largest measured so far.
    fn larger(self, fast: usize, smallest: usize, evidence: &Evidence) -> Option<usize> {
        if fast == smallest {
            let twice = fast.saturating_mul(2).min(evidence.cap);
            return Some(twice).filter(|&twice| twice > fast && may_try(twice, evidence));
        }
        // Where the limit is, and what looking for it may cost, is another policy's business.
        let goal = Adaptive::default().advance(evidence);
        (evidence.step == fast && goal > fast && self.pays(goal, evidence)).then_some(goal)
    }

    /// Whether looking for so large a size is worth it. Where speed still rises, all that fits is; beyond
    /// what is known to fail, it has to rise by more than the tolerance.
    fn pays(self, goal: usize, evidence: &Evidence) -> bool {
        if evidence.bounds.smallest_failure.is_some_and(|high| goal < high) {
            return true;
        }
        let Some(line) = evidence.measurements.samples.seconds() else { return false };
        let most = evidence.step.saturating_mul(2).max(goal);
        line.per_item(most) < line.per_item(evidence.step) * (1.0 - self.tolerance)
    }
}

/// The largest size that is allowed and not known to fail. What has failed with clearly less memory is no
/// longer known to, or else a passing shortage would hide for good how fast the larger sizes are.
fn limit(evidence: &Evidence) -> usize {
    let holds = |&failed: &usize| !has_risen(evidence) || needs_more(failed, evidence);
    evidence.bounds.smallest_failure.filter(holds).map_or(usize::MAX, |failed| failed - 1).min(evidence.cap)
}

/// Whether enough is left for another size to be worth a try.
fn may_try(size: usize, evidence: &Evidence) -> bool {
    size <= limit(evidence) && evidence.remaining / WORTH_A_TRY >= size.max(evidence.step)
}

impl Default for Throughput {
    fn default() -> Self {
        Self::within(0.05)
    }
}

/// Pieces of the size in force that must be left for a smaller size to be worth a try.
const WORTH_A_TRY: usize = 4;

impl Policy for Throughput {
    fn shrink(&self, evidence: &Evidence) -> usize {
        Adaptive::default().shrink(evidence)
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        if evidence.measurements.is_thrashing() {
            return below(evidence);
        }
        self.choose(evidence).unwrap_or(evidence.step)
    }

    fn needs(&self) -> Needs {
        Needs::TIME_AND_MEMORY
    }
}
