//! Measurements of attempts, for policies that need them.
//!
//! # Why
//!
//! The size cache keeps them behind an `Arc`, because they are larger than the rest of an entry, which every warm call
//! copies. Each thread's memo has an `Arc` of its own, so that threads share no reference count.

use std::time::Duration;

use super::bounds::Bounds;
use super::samples::Samples;

/// The measurements for a policy that [needs them](super::Needs).
///
/// The size cache's entry keeps them from call to call. The default is without any measurement. Tests of a policy make
/// measurements from [`Samples`].
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::policy::{Evidence, Measurements, Sample, Samples};
///
/// let mut sample = Sample::new(8);
/// sample.bytes = Some(800);
/// let mut evidence = Evidence::new(8);
/// evidence.measurements = Measurements::from(Samples::from_iter([sample]));
/// assert!(!evidence.measurements.is_thrashing());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measurements {
    /// The time of all attempts, of which `wasted` is a share.
    pub(crate) time: Duration,
    /// Time lost in attempts that failed at a size beyond one known to work.
    pub(crate) wasted: Duration,
    /// Time since the last failure, including the time between attempts and calls.
    pub(crate) failure_age: Duration,
    /// Duration of the last failed attempt.
    pub(crate) failure_cost: Duration,
    /// Bytes that were available after the last failure, when known.
    pub(crate) failure_available_bytes: Option<u64>,
    /// Attempts at the full step that succeeded since the last failure.
    pub(crate) clean_runs: u32,
    /// Attempts at the full step that succeeded since the known failure was found; not reset when that size fails
    /// again.
    pub(crate) known_runs: u32,
    /// The smallest size known to fail at the time when a smaller one failed that had worked before. The sizes between
    /// them may have failed only because of a disturbance.
    pub(crate) ceiling: Option<usize>,
    /// Number of times in a row that the known failure has failed again.
    pub(crate) confirmed: u32,
    /// Failures since the last success.
    pub(crate) failures: u32,
    /// Attempts in a row in which the allocator had to release its cached memory and try again.
    pub(crate) retried: u32,
    /// The sizes that have to recompute.
    pub(crate) repeating: Repeating,
    /// Times and bytes of attempts of different sizes.
    pub(crate) samples: Samples,
}

impl Measurements {
    /// Returns the time of all attempts.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// Returns the time of attempts that failed at a size beyond one known to work.
    pub fn wasted(&self) -> Duration {
        self.wasted
    }

    /// Returns times and bytes of attempts of different sizes.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// True if the current size succeeds only because the allocator releases its cached memory and tries again in every
    /// attempt. Such a size counts as one that fails.
    pub fn is_thrashing(&self) -> bool {
        self.retried >= 2
    }
}

impl From<Samples> for Measurements {
    fn from(samples: Samples) -> Self {
        Self { samples, ..Self::default() }
    }
}

/// The sizes that have to recompute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Repeating {
    /// The largest size that ran without recomputing, and the smallest that had to recompute.
    pub(super) bounds: Bounds,
    /// Bytes that were available when it had to recompute, when known.
    pub(super) available_bytes: Option<u64>,
    /// Attempts since then.
    pub(super) runs: u32,
}

impl Repeating {
    /// Records an attempt that succeeded.
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
