//! The recommended policy: its parameters and its decisions, `fit`, then `bisect`, then `expire`.
//!
//! # Why these rules
//!
//! A rule is here because the regret that `cargo xtask bench regret` prints gets worse without it: a median by 0.3 % or
//! a 95th percentile by 1 %, in some setting. The comments that begin with *Without* give the amount in one of the
//! worst settings, on a part of the worlds: runs of at most 1,200 attempts. Some rules save failures rather than time;
//! those name the test that shows it.
//!
//! Sizes are not rounded to numbers that processors prefer. Rounding costs more speed than the smaller number of shapes
//! saves, and the option `multiple_of` is the better place for it.

mod bisect;
mod deciding;
mod expire;
mod fit;
mod worth;

use super::Evidence;
use super::figures::fraction;

/// Finds the largest size that works, and follows it while memory changes: the recommended policy.
///
/// The largest size changes: memory is shared, inputs differ, allocators fragment. So this policy continues to probe,
/// with real pieces of the work. A probe that succeeds costs nothing, and the time of probes that fail is bounded. In
/// `range`, `chunked`, `map` and `fold` the size moves within one call; in `batch` from call to call.
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
/// # Rules and their origin
///
/// | situation | rule | idea |
/// |---|---|---|
/// | nothing works yet | divides the size by 2, then 4, then 8 | multiplicative decrease, as in TCP, but accelerated: each failure shows that the limit is farther away |
/// | nothing works yet in a batch, and the failure reports the requested bytes | divides the size by 2 until three quarters of the size that fits in proportion hold it; not if 128 times the free bytes were requested | part of the bytes does not depend on the size |
/// | no known failure, or one beyond 1.5 times the size that works | doubles | TCP's slow start |
/// | a nearer failure | takes the middle between the largest success and the smallest failure, until they are within `tolerance` | bisection, as in the congestion control BIC |
/// | the known failure is old | tries it again, and doubles from there when it succeeds | evidence expires in proportion to its age: exponential backoff with a small base |
/// | free memory of the `device` has risen by a tenth | tries the known failure again at once | |
/// | allocated bytes are [counted](crate::memory::MemorySource::usage) | measures small sizes, fits `bytes = a + b * size`, and takes the size that fills the memory except for `headroom` | `b` is the median of the slopes between all pairs (Theil and Sen), which one outlier cannot change much |
/// | the first size was [predicted](crate::execute::With::predict) and has not failed | takes the size that the prediction says fits, corrected by the bytes that pieces were measured to take beyond it | bytes that are known before the first attempt need not be measured |
/// | pieces have to [recompute](crate::leaner) at a size | does not grow into it, and tries smaller sizes where they would be faster; again after 256 attempts, or once free memory has risen | pieces give the same result at any size |
/// | the allocator releases its cached memory in two attempts in a row | takes that size for one that fails | |
///
/// # How far a measured size is trusted
///
/// The line holds if each further item adds as many bytes as the one before. A single item often runs other kernels, as
/// convolutions do: a line through sizes 1 and 2 is not the line of more images. So size 1 predicts up to size 2, sizes
/// 1 and 2 up to size 3, and three sizes any larger one. One size above 1 predicts up to 16 times itself. If the curve
/// bends beyond the measured sizes, a prediction may run out of memory. With bends at sizes 1 to 3 a call of a few
/// items may meet two failures instead of one.
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
    /// Bounds the time that failed probes waste to this share of the time of attempts, past and to come; 0.02 by
    /// default.
    ///
    /// Time between calls, and outside of attempts, does not count. With 0 nothing is probed.
    ///
    /// Growing back after shrinking too far is no probe. That is the case while the smallest failure is beyond 1.5
    /// times the size that works: a larger step is tried when half of the time that it would save exceeds the cost of
    /// its failure. The farther the step is from the failure, the sooner it is tried.
    ///
    /// In a `batch` the amount of work to come is unknown. There a probe may also be worth its price. As much work is
    /// expected as has been done, so the first calls risk nothing. The time that a larger size saves on that work,
    /// times the chance that it works, has to exceed the cost of its failure. A share below 0.02 lowers the saving in
    /// proportion.
    ///
    /// # Panics
    /// When `share` is not between 0 and 1.
    #[must_use]
    pub fn waste(self, share: f64) -> Self {
        Self { waste: fraction("adaptive waste", share), ..self }
    }

    /// Stops probing when the gap between the sizes that work and fail is at most this share of the size that works;
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

    /// Tries a known failure again when the attempts since it last failed are this share of all attempts since it was
    /// found, and at least 16; 0.05 by default.
    ///
    /// So a rise of the limit that no memory source shows is found within a twentieth of the attempts before it.
    /// Failures become rarer the longer nothing changes. A smaller share finds a rise sooner and causes more failures,
    /// which stay within [`waste`](Self::waste). With 1 the failure is tried again once.
    ///
    /// The doubt has to be worth it: at least 500 attempts are left, or the calls of one call site have made 1000. In a
    /// batch, twice the size has to save more than the failure costs. If the free memory of a `device` can be read and
    /// has not risen, it takes three quarters of all attempts, and at least 1024.
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
