//! Sizes between the largest success and the smallest failure; twice the size while no failure is known.

use super::{Adaptive, Evidence};
use crate::policy::facts::{failure_beyond, has_risen};
use crate::policy::figures::share;

impl Adaptive {
    /// Returns a larger size that is not known to fail, if it is worth its risk.
    pub(super) fn bisect(&self, evidence: &Evidence) -> Option<usize> {
        let low = evidence.step;
        let goal = match failure_beyond(low, evidence) {
            None => low.saturating_mul(2),
            // Beyond twice the size: p95 +6.8 % cold (batch, reads), +3.5 % (range, none).
            Some(high) if self.is_wide(low, high, evidence) => low + ((high - low) / 2).min(low),
            Some(_) => return None,
        };
        self.may_try(goal, evidence).then_some(goal)
    }

    /// True if sizes between the two are worth a try; not if memory has risen, because then more may fit.
    ///
    /// Without the tolerance: median +3.3 % cold (batch, dry run, noise).
    fn is_wide(&self, low: usize, high: usize, evidence: &Evidence) -> bool {
        let gap = high - low;
        gap > evidence.multiple_of && share(gap, low) > self.tolerance && !has_risen(evidence)
    }
}
