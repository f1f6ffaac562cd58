use super::adaptive::below;
use super::{Evidence, Measures, Policy, Sample};

/// Uses the smallest size that works off as many items per second as any, within a tolerance.
///
/// More items at once stop paying once the device is busy: beyond that they only need memory. The
/// work itself is the measurement: each size is tried on real pieces, starting from the largest and
/// halving while nothing is lost. In `range`, `chunked`, `map` and `fold` it moves within one call; in
/// `batch` from call to call, where it takes for granted that a batch works off as many items as its
/// size says.
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
        let samples = || evidence.record.samples.iter().filter(|sample| sample.size <= limit(evidence));
        let rate = |sample: &Sample| sample.rate().unwrap_or_default();
        let best = samples().max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
        let larger = best.size.saturating_mul(2).min(evidence.cap);
        if samples().last()?.size == best.size && larger > best.size && may_try(larger, evidence) {
            return Some(larger);
        }
        let enough = rate(&best) * (1.0 - self.tolerance);
        let fast = samples().find(|sample| rate(sample) >= enough)?.size;
        let is_smallest = samples().next()?.size == fast;
        if is_smallest && may_try(fast / 2, evidence) { Some(fast / 2) } else { Some(fast) }
    }
}

/// The largest size that is allowed and not known to fail.
fn limit(evidence: &Evidence) -> usize {
    evidence.bounds.smallest_failure.map_or(usize::MAX, |failed| failed - 1).min(evidence.cap)
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
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        if evidence.record.is_thrashing() {
            return below(evidence);
        }
        self.choose(evidence).unwrap_or(evidence.step)
    }

    fn measures(&self) -> Measures {
        Measures::TIME_AND_MEMORY
    }
}
