//! The recommended policy: its parameters and its decisions, `fit`, then `bisect`, then `expire`.
//!
//! # Why these rules
//!
//! A rule is here because without it the regret that `cargo xtask bench regret` prints gets worse: a median by
//! 0.3 % or a 95th percentile by 1 %, in some setting. *Without* says beside each rule by how much, in one of
//! its worst settings, on a part of the worlds: runs of at most 1,200 attempts. Some rules save failures rather
//! than time; those name the test that shows it.
//!
//! Sizes are not rounded to what processors like. That costs more pace than it saves shapes, and
//! `multiple_of` says it better.

mod bisect;
mod deciding;
mod expire;
mod fit;
mod worth;

use super::Evidence;
use super::figures::fraction;

/// Finds the largest size that works, and keeps it right while memory changes: the recommended policy.
///
/// The largest size changes: memory is shared, inputs differ, allocators fragment. So this policy goes on
/// probing, with real pieces of the work. A probe that succeeds costs nothing, and the time of probes that
/// fail is bounded. In `range`, `chunked`, `map` and `fold` the size moves within one call; in `batch` from
/// call to call.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::Adaptive;
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
/// | nothing works yet | divides the size by 2, then 4, then 8 | multiplicative decrease, as in TCP, but accelerated: each failure says that the limit is farther away |
/// | nothing works yet in a batch, and the failure tells the bytes it asked for | divides the size by 2 until three quarters of what fits in proportion hold it; not where 128 times the free bytes were asked for | part of the bytes does not depend on the size |
/// | no known failure, or one beyond 1.5 times what works | doubles | TCP's slow start |
/// | a nearer failure | takes the middle between the largest success and the smallest failure, until they are within `tolerance` | bisection, as in the congestion control BIC |
/// | the known failure is old | tries it again, and doubles from there when it succeeds | evidence expires in proportion to its age: exponential backoff with a small base |
/// | free memory of the `device` has risen by a tenth | tries the known failure again at once | |
/// | allocated bytes are [counted](crate::memory::MemorySource::usage) | measures small sizes, fits `bytes = a + b * size`, and takes the size that fills the memory but for `headroom` | `b` is the median of the slopes between all pairs (Theil and Sen), which one outlier cannot turn |
/// | the first size was [predicted](crate::execute::With::predict) and has not failed | takes the size that the prediction says fits, corrected by the bytes that pieces were measured to take beyond it | what is known before the first attempt need not be measured |
/// | pieces have to [repeat](crate::leaner) at a size | does not grow into it, and looks below it where that would be faster; again after 256 attempts, or once free memory has risen | pieces give the same result at any size |
/// | the allocator releases its cached memory in two attempts in a row | takes that size for one that fails | |
///
/// # How far a measured size is trusted
///
/// The line holds where each further item adds as many bytes as the one before. A single item often runs
/// other kernels, as convolutions do: a line through sizes 1 and 2 is not the line of more images. So size 1
/// predicts up to size 2, sizes 1 and 2 up to size 3, and three sizes any larger one. One size above 1
/// predicts up to 16 times itself. Where memory bends beyond the measured sizes, a prediction may run
/// out of memory. With bends at sizes 1 to 3 a call of a few items may meet two failures instead of one.
///
/// # Parameters
///
/// | parameter | default | unit |
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
    /// Probes that fail waste at most this share of the time of attempts, past and to come; 0.02 by default.
    ///
    /// Time between calls, and outside of attempts, does not count. With 0 nothing is probed.
    ///
    /// Growing back after shrinking too far is no probe. It applies while the smallest failure is beyond 1.5
    /// times what works: a larger step is tried when half of what it would save exceeds the cost of its
    /// failing. The farther the step is from the failure, the sooner it is tried.
    ///
    /// A `batch` does not tell how much is to come. There a probe may also be worth its price. As much work
    /// is expected as there has been, so the first calls risk nothing. What a larger size saves on it, times
    /// the chance that it works, has to exceed the cost of its failing. A share below 0.02 lowers the saving
    /// in proportion.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn waste(self, share: f64) -> Self {
        Self { waste: fraction("adaptive waste", share), ..self }
    }

    /// Stops probing when the gap between what works and what fails is at most this share of what works;
    /// 0.05 by default.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn tolerance(self, share: f64) -> Self {
        Self { tolerance: fraction("adaptive tolerance", share), ..self }
    }

    /// Leaves this share of the available bytes free when it predicts a size; 0.01 by default.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn headroom(self, share: f64) -> Self {
        Self { headroom: fraction("adaptive headroom", share), ..self }
    }

    /// Tries a known failure again when the attempts since it last failed are this share of all attempts
    /// since it was found, and at least 16; 0.05 by default.
    ///
    /// So a rise that no memory source shows is found within a twentieth of the attempts before it. Failures
    /// become rarer the longer nothing changes. A smaller share finds a rise sooner and meets more failures,
    /// which stay within [`waste`](Self::waste). With 1 the failure is tried again once.
    ///
    /// The doubt has to be worth it: at least 500 attempts are left, or the calls of one place have made 1000.
    /// In a batch, twice the size has to save more than the failure costs. Where the free memory of a
    /// `device` can be read and has not risen, it takes three quarters of all attempts, and at least 1024.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn doubt(self, share: f64) -> Self {
        Self { doubt: fraction("adaptive doubt", share), ..self }
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { waste: 0.02, tolerance: 0.05, headroom: 0.01, doubt: 0.05 }
    }
}
