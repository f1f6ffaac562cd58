//! Bisection between the largest success and the smallest failure.
//!
//! # Why
//!
//! It measures nothing, so it cannot know the cost of another failure. Therefore it does not read free memory, and
//! tries a size that failed again only in a doubt. [`Adaptive`](super::Adaptive) weighs that cost against the gain.

use super::figures::{fraction, share};
use super::{Evidence, Policy};

/// Halves down to the first success, then bisects between the largest success and the smallest
/// failure.
///
/// Ends within the tolerance of the best size, where [`Halve`](crate::Halve) may end at half of it.
/// Each probe is a real piece of the work, so a probe that succeeds costs nothing. In `range`,
/// `chunked`, `map` and `fold` it probes within one call; in `batch` from call to call.
///
/// A size that failed is tried again only when the settled size is doubted, after 64 successes and a minute.
/// [`Adaptive`](crate::Adaptive) grows back sooner after a passing shortage of memory.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::Bisect;
///
/// let default = Bisect::default();               // stop within 1/16 of the largest success
/// let closer = Bisect::within(1.0 / 64.0);
/// assert_ne!(default, closer);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bisect {
    tolerance: f64,
}

impl Bisect {
    /// Stops probing when the gap is at most `tolerance` times the largest success.
    ///
    /// # Panics
    /// When `tolerance` is not between 0 and 1.
    pub fn within(tolerance: f64) -> Self {
        Self { tolerance: fraction("bisect tolerance", tolerance) }
    }
}

impl Default for Bisect {
    fn default() -> Self {
        Self::within(1.0 / 16.0)
    }
}

impl Policy for Bisect {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.bounds.below(evidence.size)
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        match (evidence.bounds.largest_success, evidence.bounds.smallest_failure) {
            // A failure below the largest success is no bound: a cache may return any values.
            (Some(low), Some(high)) if low < high => {
                let gap = high - low;
                if share(gap, low) > self.tolerance { low + gap / 2 } else { low }
            }
            _ => evidence.step,
        }
    }
}
