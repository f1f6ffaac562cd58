use super::adaptive::below;
use super::{Evidence, Measures, Policy, Sample};

/// Uses the smallest size that works off as many items per second as any, within a tolerance.
///
/// More items at once stop paying once the device is busy: beyond that they only need memory. The
/// work itself is the measurement: each size is tried on real pieces, starting from the largest and
/// halving while nothing is lost. In `range`, `chunked`, `map` and `fold` it moves within one call; in
/// `batch` it stays where it is, because a batch does not say how many items it works off.
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

    /// The smallest sample, and the smallest that is fast enough.
    fn choose(self, evidence: &Evidence) -> Option<(Sample, Sample)> {
        let limit =
            evidence.bounds.smallest_failure.map_or(usize::MAX, |failed| failed - 1).min(evidence.cap);
        let usable = || evidence.record.samples.iter().filter(|sample| sample.size <= limit);
        let best = usable().filter_map(|sample| sample.rate()).max_by(f64::total_cmp)?;
        let enough = best * (1.0 - self.tolerance);
        let fast = usable().find(|sample| sample.rate().is_some_and(|rate| rate >= enough))?;
        Some((usable().next()?, fast))
    }
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
        let is_batch = evidence.remaining == usize::MAX;
        match self.choose(evidence) {
            Some((smallest, fast)) if !is_batch => {
                let worth = evidence.remaining / WORTH_A_TRY >= fast.size;
                if fast.size == smallest.size && worth { fast.size / 2 } else { fast.size }
            }
            _ => evidence.step,
        }
    }

    fn measures(&self) -> Measures {
        Measures::TIME_AND_MEMORY
    }
}
