//! What attempts have shown, for policies that measure.
//!
//! # Why
//!
//! They are behind an `Arc` in the size cache. They are larger than the rest of an entry, which every warm
//! call copies. Each thread's memo has an `Arc` of its own, so that no count of references is shared.

use std::time::Duration;

use super::bounds::Bounds;
use super::samples::Samples;

/// What was measured for a policy that [needs it](super::Needs).
///
/// The size cache's entry keeps it from call to call. The default is nothing measured. Tests of a policy make
/// one from [`Samples`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurements {
    /// The time of all attempts: what wasted time is a share of.
    pub(crate) time: Duration,
    /// Time lost in attempts that failed at a size beyond one known to work.
    pub(crate) wasted: Duration,
    /// Time since the last failure, that between attempts and calls included.
    pub(crate) failure_age: Duration,
    /// How long the last failed attempt took.
    pub(crate) failure_cost: Duration,
    /// Bytes that were available when it had failed, when known.
    pub(crate) failure_available_bytes: Option<u64>,
    /// Attempts at the full step that succeeded since the last failure.
    pub(crate) clean_runs: u32,
    /// Attempts at the full step that succeeded since what is known to fail was found; goes on when
    /// that fails again.
    pub(crate) known_runs: u32,
    /// The smallest size known to fail when a smaller one failed that had worked before. What lies
    /// between may only have been disturbed.
    pub(crate) ceiling: Option<usize>,
    /// How often in a row what was known to fail has failed again.
    pub(crate) confirmed: u32,
    /// Failures since the last success.
    pub(crate) failures: u32,
    /// Attempts in a row in which the allocator had to release its cached memory and try again.
    pub(crate) retried: u32,
    /// Which sizes have to repeat.
    pub(crate) repeating: Repeating,
    /// What attempts of different sizes took and allocated.
    pub(crate) samples: Samples,
}

impl Measurements {
    /// The time of all attempts.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// The time of attempts that failed at a size beyond one known to work.
    pub fn wasted(&self) -> Duration {
        self.wasted
    }

    /// What attempts of different sizes took and allocated.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Whether the size in force succeeds only because the allocator releases its cached memory and tries
    /// again in every attempt. Such a size counts as one that fails.
    pub fn is_thrashing(&self) -> bool {
        self.retried >= 2
    }
}

impl From<Samples> for Measurements {
    fn from(samples: Samples) -> Self {
        Self { samples, ..Self::default() }
    }
}

/// Which sizes have to repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Repeating {
    /// The largest size that ran without repeating, and the smallest that had to.
    pub(super) bounds: Bounds,
    /// Bytes that were available when it had to, when known.
    pub(super) available_bytes: Option<u64>,
    /// Attempts since then.
    pub(super) runs: u32,
}

impl Repeating {
    /// Takes note of an attempt that succeeded.
    pub(crate) fn note(&mut self, size: usize, repeats: bool, available_bytes: Option<u64>) {
        self.runs = self.runs.saturating_add(1);
        if !repeats {
            self.bounds.succeeded(size);
            return;
        }
        self.bounds.failed(size);
        (self.available_bytes, self.runs) = (available_bytes, 0);
    }
}
