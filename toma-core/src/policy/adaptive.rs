//! The recommended policy: what it can be told, and what it does.

mod choose;
mod probe;

use self::choose::{first, half_of_what_fits, is_cold, is_one, measures_first, second, small};
use self::probe::high;
pub(super) use self::{choose::needs_more, probe::has_risen};
use super::{Evidence, Needs, Policy};

/// Finds the largest size that works, and keeps it right while memory changes: the recommended policy.
///
/// A size is never known to be right for good: memory is shared, inputs differ, allocators fragment.
/// So this policy goes on looking, with real pieces of the work: a probe that succeeds costs nothing,
/// and what probes that fail may waste is bounded. In `range`, `chunked`, `map` and `fold` it moves
/// within one call; in `batch` from call to call.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::Adaptive;
///
/// let default = Adaptive::default();
/// let careful = Adaptive::default().waste(0.005).headroom(0.1);
/// assert_ne!(default, careful);
/// ```
///
/// # What it does, and where that comes from
///
/// | situation | what it does | the idea |
/// |---|---|---|
/// | nothing works yet | halves, then quarters, then eighths the size; anew from half where a failure took much longer than the one before | multiplicative decrease, as TCP backs off; accelerated, because each failure says that the limit is far |
/// | in a batch nothing has ever worked, and it is known what was asked for and what was there | at most half of what would fit if all were in proportion; but where more than 128 times as much was asked for, that says nothing of the size | |
/// | what fails is far, or unknown | doubles | TCP's slow start |
/// | what fails is near | takes the middle between the largest success and the smallest failure, until they are within `tolerance` | bisection; as the congestion control BIC finds a window |
/// | what fails has not been met for long | tries it again, and doubles from there when it succeeds | evidence that expires in proportion to its age: exponential back-off with a small base |
/// | free memory of the `device` has risen | tries it again at once | |
/// | allocated bytes are [counted](crate::memory::MemorySource::usage) | starts small, fits `bytes = a + b * size`, and goes where that fills the memory but for `headroom` | the slope is the median of those between all pairs (Theil and Sen), which one outlier cannot turn |
/// | the allocator releases its cached memory in two attempts in a row | takes that size for one that fails | |
///
/// # What it can be told
///
/// | parameter | unless told | unit |
/// |---|---|---|
/// | [`waste`](Self::waste) | 0.02 | share of the time of attempts |
/// | [`tolerance`](Self::tolerance) | 0.05 | share of the size that works |
/// | [`headroom`](Self::headroom) | 0.01 | share of the available bytes |
/// | [`doubt`](Self::doubt) | 0.05 | share of the attempts since a failure was found |
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    waste: f64,
    tolerance: f64,
    headroom: f64,
    doubt: f64,
}

impl Adaptive {
    /// Probes that fail waste at most this share of the time that attempts took and will take; 0.02
    /// unless told.
    ///
    /// Time between calls, and outside of attempts, does not count. With 0 nothing is probed.
    ///
    /// Growing back after a shrink that went too far is no probe: while what fails is more than half as
    /// large again as what works, a larger step is tried when half of what it would save exceeds the
    /// cost of its failing, and sooner the farther away it is from what fails.
    ///
    /// A `batch` does not say how much is to come. There a probe may also be worth its price: as much is
    /// thought to come as there has been, so the first calls risk nothing, and what a larger size saves on
    /// that, in proportion to the chance that it works, has to exceed the cost of its failing. A share
    /// below 0.02 makes that less in proportion.
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

    /// Tries what is known to fail again when the attempts since it last failed are this share of all
    /// attempts since it was found, and at least 16; 0.05 unless told.
    ///
    /// So a limit that rises without a memory source showing it is found within a twentieth of the
    /// attempts for which it had been as it was, and failures become rarer the longer nothing changes.
    /// A smaller share finds it sooner and meets more failures, which stay within
    /// [`waste`](Self::waste); with 1 it is tried again once. Work of which less than 500 attempts are left is
    /// not worth the doubt, unless twice as many have been made, in calls of one place together; nor is a batch that
    /// would gain little at twice the size. Where the free memory of a `device` can be read and has not
    /// risen, it takes three quarters of all attempts, and at least 1024.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn doubt(self, share: f64) -> Self {
        Self { doubt: fraction("doubt", share), ..self }
    }
}

fn fraction(name: &str, share: f64) -> f64 {
    assert!((0.0..=1.0).contains(&share), "adaptive {name} {share}: must be between 0 and 1");
    share
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { waste: 0.02, tolerance: 0.05, headroom: 0.01, doubt: 0.05 }
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
        let smaller = size >> evidence.measurements.failures.clamp(1, FASTEST);
        smaller.min(half_of_what_fits(evidence))
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        if is_cold(evidence) {
            return first(evidence);
        }
        if evidence.measurements.is_thrashing() {
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

    fn needs(&self) -> Needs {
        Needs::TIME_AND_MEMORY
    }
}

/// What is known to work below the step in force, or half of it.
pub(super) fn below(evidence: &Evidence) -> usize {
    let works = evidence.bounds.largest_success.filter(|&works| works < evidence.step);
    works.unwrap_or(evidence.step / 2)
}

/// The fastest shrink while nothing is known to work, as a power of two.
const FASTEST: u32 = 3;

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
        let high = high(evidence).filter(|&high| high > low);
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
}
