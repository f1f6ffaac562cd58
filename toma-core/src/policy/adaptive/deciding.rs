//! The decisions: `fit`, then `bisect`, then `expire`.

use super::{Adaptive, Evidence, fit};
use crate::policy::repeating::held;
use crate::policy::{Needs, Policy};

impl Policy for Adaptive {
    fn shrink(&self, evidence: &Evidence) -> usize {
        let size = evidence.size;
        if let Some(works) = evidence.bounds.largest_success.filter(|&works| works < size) {
            return works;
        }
        if fit::measures_first(evidence) {
            return fit::small(evidence).min(size - 1);
        }
        // Each failure shows that the limit is farther away: shrink far, and grow back.
        let smaller = size >> evidence.measurements.failures.clamp(1, FASTEST);
        smaller.min(fit::halving_that_fits(evidence))
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        if fit::is_cold(evidence) {
            return fit::first(evidence);
        }
        if evidence.measurements.is_thrashing() {
            // No figure, because no world of the benchmark has an allocator that tries again: see the test
            // `adaptive_leaves_sizes_that_thrash`.
            return evidence.bounds.below(evidence.step);
        }
        let goal = self.fit(evidence).or_else(|| self.bisect(evidence)).or_else(|| self.expire(evidence));
        held(goal.unwrap_or(evidence.step), evidence, self.tolerance)
    }

    fn needs(&self) -> Needs {
        Needs::TIME_AND_MEMORY
    }
}

/// The fastest shrink while nothing is known to work, as a power of two.
///
/// With 1: p95 +40 % (batch, none, rise), and a limit that doubles is never found.
const FASTEST: u32 = 3;
