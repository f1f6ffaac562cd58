//! Policies, which choose the next size to try.
//!
//! A [`Policy`] is a pure function from [`Evidence`] to a size. It keeps no state of its own: the size cache
//! keeps the evidence from call to call. The engine rounds and bounds every answer, so a policy can be one
//! line.
//!
//! ```
//! # extern crate toma_core as toma;
//! use toma::policy::{Evidence, Policy};
//!
//! #[derive(Debug)]
//! struct Quarter;
//!
//! impl Policy for Quarter {
//!     fn shrink(&self, evidence: &Evidence) -> usize {
//!         evidence.size / 4
//!     }
//! }
//! ```
//!
//! | policy | settles | needs |
//! |---|---|---|
//! | [`Adaptive`] (recommended) | near the largest size that works, and follows it | time, memory |
//! | [`Throughput`](crate::Throughput) | the smallest size that is as fast as any | time, memory |
//! | [`Bisect`](crate::Bisect) | within a tolerance of the largest size that works | nothing |
//! | [`Halve`] (the default) | between half of it and all of it | nothing |
//! | [`Calibrate`] | near the largest size that fits by the bytes of earlier pieces, without a failure | time, memory |
//! | [`Decay`](crate::Decay) | within a factor of it | nothing |

pub(crate) mod adaptive;
pub(crate) mod bisect;
mod bounds;
mod calibrate;
pub(crate) mod decay;
mod doubt;
mod facts;
pub(crate) mod figures;
mod fit;
pub(crate) mod halve;
mod measurements;
mod needs;
mod repeating;
mod samples;
pub(crate) mod throughput;

use std::fmt::Debug;
use std::time::Duration;

pub(crate) use adaptive::Adaptive;
pub use bounds::Bounds;
pub use calibrate::Calibrate;
pub(crate) use doubt::Doubt;
pub use fit::Fit;
pub(crate) use halve::Halve;
pub use measurements::Measurements;
pub use needs::Needs;
pub use samples::{Sample, Samples};

use crate::classify::Class;

/// Decides the next size from the evidence.
///
/// Sizes are in items, or in [cost units](crate::execute::With::by_cost) where the call has costs. The
/// engine rounds every answer down to the call's `multiple_of`. It keeps the answer between the floor and the
/// call's `initial` and `max`.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::{Evidence, Policy};
/// use toma::{NoCache, classify::OutOfMemory, execute};
///
/// /// Gives up four items at a time.
/// #[derive(Debug)]
/// struct MinusFour;
///
/// impl Policy for MinusFour {
///     fn shrink(&self, evidence: &Evidence) -> usize {
///         evidence.size.saturating_sub(4)
///     }
/// }
///
/// let form = execute::with::<NoCache>().policy(MinusFour);
/// let size = form.batch(16, |size| if size > 10 { Err(OutOfMemory::new(None)) } else { Ok(size) })?;
/// assert_eq!(size, 8);
/// # Ok::<(), OutOfMemory>(())
/// ```
pub trait Policy: Debug {
    /// Returns the size to try after an attempt of `evidence.size` ran out of memory.
    ///
    /// The answer must be smaller than `evidence.size`. Otherwise the engine panics, and names the call, the
    /// policy and both sizes. The engine does not ask when no smaller size is allowed.
    fn shrink(&self, evidence: &Evidence) -> usize;

    /// Returns the step for the next piece after one that succeeded, or for the first piece of a call.
    ///
    /// This is the current step, unless the policy looks for a better one.
    fn advance(&self, evidence: &Evidence) -> usize {
        evidence.step
    }

    /// True if [`advance`](Self::advance) always returns the current step; then the engine does not call it. Must
    /// return the same value every time.
    #[inline]
    fn is_fixed(&self) -> bool {
        false
    }

    /// Returns the measurements that the engine must make for this policy. Must return the same value every time.
    #[inline]
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}

/// The facts on which a policy decides.
///
/// Sizes are in items, or in [cost units](crate::execute::With::by_cost) where the call has costs. An attempt with
/// costs seldom fills its step.
///
/// A policy is tested without any loop:
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::Halve;
/// use toma::policy::{Evidence, Policy};
///
/// let mut evidence = Evidence::new(10);
/// evidence.free_bytes = Some(1 << 30);
/// assert_eq!(Halve.shrink(&evidence), 5);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The size of the attempt that was just made (or would be made first).
    pub size: usize,
    /// The current step; larger than `size` when only a ragged rest was left.
    pub step: usize,
    /// The class of the failure; `None` after a success or before the first attempt.
    pub class: Option<Class>,
    /// Bytes requested by the failed allocation, when known.
    pub requested_bytes: Option<u64>,
    /// Free bytes of the memory source after the failed attempt, when known. Without the option `device` this is the
    /// host's memory, whichever memory ran out. Never read after a success.
    pub free_bytes: Option<u64>,
    /// Total bytes of the memory source, when known. Never read after a success.
    pub total_bytes: Option<u64>,
    /// Bytes the next attempt could allocate, for policies that [measure memory](Needs): free bytes plus those that the
    /// allocator has reserved and not allocated. Unknown without the option `device`, which names the memory.
    pub available_bytes: Option<u64>,
    /// The size that fits into these bytes according to a [prediction](crate::execute::With::predict), unless the
    /// pieces of the call have shown the prediction to be wrong. For policies that measure memory.
    pub predicted: Option<usize>,
    /// True if the memory source counts allocated bytes, for policies that measure memory.
    pub counts_bytes: bool,
    /// Most bytes the attempt had allocated at one time beyond those allocated before it, for policies that measure
    /// memory, if the source counts them.
    pub peak_bytes: Option<u64>,
    /// Duration of the attempt, if the policy, an observer, a deadline or an earlier failure of the call made the
    /// engine read the clock.
    pub elapsed: Option<Duration>,
    /// Part of that duration that the attempt spent on recomputing, because it did not fit otherwise, as its body
    /// [reported](crate::leaner::repeated). For policies that measure anything.
    pub repeated: Duration,
    /// The work still to do, including a failed attempt, in the unit of sizes; `usize::MAX` in a batch.
    pub remaining: usize,
    /// The sizes known to work and to fail.
    pub bounds: Bounds,
    /// The smallest allowed size, except for a last piece.
    pub floor: usize,
    /// The largest allowed size.
    pub cap: usize,
    /// Every size except that of a last piece is a multiple of this.
    pub multiple_of: usize,
    /// The measurements so far, for policies that measure anything.
    pub measurements: Measurements,
}

impl Evidence {
    /// Returns an attempt of this size, with all else unknown. Tests of a policy set the fields that matter to them.
    pub fn new(size: usize) -> Self {
        Self {
            size,
            step: size,
            class: None,
            requested_bytes: None,
            free_bytes: None,
            total_bytes: None,
            available_bytes: None,
            predicted: None,
            counts_bytes: false,
            peak_bytes: None,
            elapsed: None,
            repeated: Duration::ZERO,
            remaining: usize::MAX,
            bounds: Bounds::default(),
            floor: 1,
            cap: usize::MAX,
            multiple_of: 1,
            measurements: Measurements::default(),
        }
    }
}

macro_rules! forward_policy {
    ($($pointer:ty),*) => {$(
        impl<P: Policy + ?Sized> Policy for $pointer {
            fn shrink(&self, evidence: &Evidence) -> usize {
                (**self).shrink(evidence)
            }

            fn advance(&self, evidence: &Evidence) -> usize {
                (**self).advance(evidence)
            }

            #[inline]
            fn is_fixed(&self) -> bool {
                (**self).is_fixed()
            }

            #[inline]
            fn needs(&self) -> Needs {
                (**self).needs()
            }
        }
    )*};
}

forward_policy!(&P, Box<P>);

const _: Option<&dyn Policy> = None;
