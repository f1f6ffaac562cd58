//! Which size to try next.
//!
//! A [`Policy`] is a pure function from [`Evidence`] to a size. It keeps no state of its own: what
//! was learned lives in the evidence, which the size cache keeps from call to call. The engine
//! rounds and bounds every answer, so a policy can be one line.
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
//! | policy | settles | asks for |
//! |---|---|---|
//! | [`Adaptive`] (recommended) | near the largest size that works, and follows it | time, memory |
//! | [`Throughput`] | the smallest size that is as fast as any | time, memory |
//! | [`Bisect`] | within a tolerance of the largest size that works | nothing |
//! | [`Halve`] (the default) | between half of it and all of it | nothing |
//! | [`Decay`] | within a factor of it | nothing |

mod adaptive;
mod bisect;
mod bounds;
mod decay;
mod doubt;
mod figures;
mod fit;
mod halve;
mod measurements;
mod needs;
mod samples;
mod throughput;

use std::fmt::Debug;
use std::time::Duration;

pub use adaptive::Adaptive;
pub use bisect::Bisect;
pub use bounds::Bounds;
pub use decay::Decay;
pub(crate) use doubt::Doubt;
pub use fit::Fit;
pub use halve::Halve;
pub use measurements::Measurements;
pub use needs::Needs;
pub use samples::{Sample, Samples};
pub use throughput::Throughput;

use crate::classify::Class;

/// Decides the next size from the evidence.
///
/// Sizes are in items, or in [cost units](crate::execute::With::by_cost) where the call has costs. The
/// engine rounds what a policy answers down to the call's `multiple_of`, and keeps it between the floor and
/// the call's `initial` and `max`.
pub trait Policy: Debug {
    /// The size to try after an attempt of `evidence.size` ran out of memory.
    ///
    /// The answer must be smaller than `evidence.size`; the engine panics with the name of the call, the
    /// policy and both sizes when it is not. It is not asked when nothing smaller is allowed.
    fn shrink(&self, evidence: &Evidence) -> usize;

    /// The step for the next piece after one that succeeded, or for the first piece of a call.
    ///
    /// Stays at the step in force unless the policy looks for a better one.
    fn advance(&self, evidence: &Evidence) -> usize {
        evidence.step
    }

    /// What the engine must measure for this policy; the same at every call.
    #[inline]
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }
}

/// What is known when a policy is asked.
///
/// Sizes are in items, or in [cost units](crate::execute::With::by_cost) where the call has costs: then an
/// attempt seldom fills its step.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The size of the attempt that was just made (or would be made first).
    pub size: usize,
    /// The step in force; larger than `size` when only a ragged rest was left.
    pub step: usize,
    /// The class of the failure; `None` after a success or before the first attempt.
    pub class: Option<Class>,
    /// Bytes the failed allocation asked for, when known.
    pub requested_bytes: Option<u64>,
    /// Free bytes of the memory source once the attempt had failed, when known; the host's without the option
    /// `device`, whichever memory it was that ran out. Never read after a success.
    pub free_bytes: Option<u64>,
    /// Total bytes of the memory source, when known. Never read after a success.
    pub total_bytes: Option<u64>,
    /// Bytes the next attempt could allocate, for policies that [measure memory](Needs): what is
    /// free, and what the allocator holds back for us. Not known without the option `device`, since nothing
    /// says then which memory the work allocates from.
    pub available_bytes: Option<u64>,
    /// Whether the memory source counts what is allocated, for policies that measure memory.
    pub counts_bytes: bool,
    /// Most bytes the attempt had allocated at one time beyond those before it, for policies that
    /// measure memory, where the source counts them.
    pub peak_bytes: Option<u64>,
    /// How long the attempt took, when the policy, an observer, a deadline or an earlier failure of
    /// the call made the engine read the clock.
    pub elapsed: Option<Duration>,
    /// What is still to do, a failed attempt included, in the unit of sizes; `usize::MAX` in a batch.
    pub remaining: usize,
    /// The sizes known to work and to fail.
    pub bounds: Bounds,
    /// No size other than a last piece is smaller.
    pub floor: usize,
    /// No size is larger.
    pub cap: usize,
    /// Every size but a last piece is a multiple of this.
    pub multiple_of: usize,
    /// What was measured so far, for policies that measure anything.
    pub measurements: Measurements,
}

impl Evidence {
    /// An attempt of this size of which nothing else is known: for the tests of a policy, which
    /// then set the fields they are about.
    pub const fn new(size: usize) -> Self {
        Self {
            size,
            step: size,
            class: None,
            requested_bytes: None,
            free_bytes: None,
            total_bytes: None,
            available_bytes: None,
            counts_bytes: false,
            peak_bytes: None,
            elapsed: None,
            remaining: usize::MAX,
            bounds: Bounds { largest_success: None, smallest_failure: None },
            floor: 1,
            cap: usize::MAX,
            multiple_of: 1,
            measurements: Measurements::NEW,
        }
    }
}

impl<P: Policy + ?Sized> Policy for &P {
    fn shrink(&self, evidence: &Evidence) -> usize {
        (**self).shrink(evidence)
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        (**self).advance(evidence)
    }

    #[inline]
    fn needs(&self) -> Needs {
        (**self).needs()
    }
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn shrink(&self, evidence: &Evidence) -> usize {
        (**self).shrink(evidence)
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        (**self).advance(evidence)
    }

    #[inline]
    fn needs(&self) -> Needs {
        (**self).needs()
    }
}

const _: Option<&dyn Policy> = None;
