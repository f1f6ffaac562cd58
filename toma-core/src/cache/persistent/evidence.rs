//! What several runs have learned about one call on one memory, how it is merged, and what it says.
//!
//! Evidence is a set of observations. Merging two sets is their union, of which stays, for each run
//! and [level](Observation::run_and_level) of free memory, what that run learned last, and of these the
//! newest [`MAX_OBSERVATIONS`]. Order is by time and then by content, so it is total, and the merge is
//! commutative, associative and idempotent: in whatever order processes write, and however often,
//! the same comes out, and no evidence goes because another process wrote after it.
//!
//! Bounds are no part of the set. They are worked out from it when a call asks, from the oldest
//! observation to the newest, the newer overriding what contradicts it.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::process;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::marks::{Hex, Moment};
use super::stored::StoredMeasurements;
use crate::cache::Remembered;
use crate::cache::levels::{Levels, tolerance};
use crate::call_site::hash_of;
use crate::policy::{Bounds, Measurements};

/// Observations an entry holds; beyond it the oldest goes.
const MAX_OBSERVATIONS: usize = 8;

/// What one run has learned; ordered by time first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Observation {
    pub(super) learned: Moment,
    pub(super) run: Hex,
    pub(super) settled: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) largest_success: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) smallest_failure: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) free_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) measured: Option<StoredMeasurements>,
}

/// Observations, the newest first once something was merged into them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Observations(pub(super) Vec<Observation>);

impl Observation {
    pub(super) fn new(learned: &Remembered, at: Moment) -> Self {
        let Bounds { largest_success, smallest_failure } = learned.bounds;
        Self {
            learned: at,
            run: this_run(),
            settled: learned.settled as u64,
            largest_success: largest_success.map(|size| size as u64),
            smallest_failure: smallest_failure.map(|size| size as u64),
            free_bytes: learned.free_bytes,
            measured: learned.measurements.as_deref().map(StoredMeasurements::from),
        }
    }

    fn remembered(&self) -> Remembered {
        let bounds = Bounds {
            largest_success: self.largest_success.map(size),
            smallest_failure: self.smallest_failure.map(size),
        };
        let (free_bytes, learned) = (self.free_bytes, self.learned.time());
        let measurements = self.measured.as_ref().map(|measured| Arc::new(Measurements::from(measured)));
        Remembered { bounds, free_bytes, learned, measurements, ..Remembered::new(size(self.settled)) }
    }

    /// Of two observations of one run, with about the same memory free (to a factor of two), the newer
    /// replaces the older.
    pub(super) fn run_and_level(&self) -> (Hex, Option<u32>) {
        (self.run, self.free_bytes.map(|bytes| u64::BITS - bytes.leading_zeros()))
    }
}

impl Observations {
    pub(super) fn merge(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.tidy();
    }

    pub(super) fn learn(&mut self, observation: Observation) {
        self.0.push(observation);
        self.tidy();
    }

    fn tidy(&mut self) {
        // A file may hold whatever its writer put there.
        self.0.retain(|observation| observation.settled > 0);
        self.0.sort_by(|a, b| b.cmp(a));
        let mut seen = HashSet::new();
        self.0.retain(|observation| seen.insert(observation.run_and_level()));
        self.0.truncate(MAX_OBSERVATIONS);
    }

    pub(super) fn newest(&self) -> Option<Moment> {
        self.0.first().map(|observation| observation.learned)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What all observations together say where `free` bytes are free.
    ///
    /// The level of free memory is chosen as within a process. Of other levels counts what holds
    /// here too: what worked with less memory, and what failed with more.
    pub(super) fn says(&self, free: Option<u64>) -> Option<Remembered> {
        let mut levels = Levels::default();
        self.oldest_first().for_each(|remembered| levels.learn(remembered));
        let mut chosen = levels.at(free)?.clone();
        let mut bounds = Bounds::default();
        for older in self.oldest_first() {
            let failed_with_more = is_at_most(chosen.free_bytes, older.free_bytes);
            older.bounds.smallest_failure.filter(|_| failed_with_more).inspect(|&size| bounds.failed(size));
            let worked_with_less = is_at_most(older.free_bytes, chosen.free_bytes);
            older.bounds.largest_success.filter(|_| worked_with_less).inspect(|&size| bounds.succeeded(size));
        }
        if let Some(failed) = bounds.smallest_failure.filter(|&failed| failed <= chosen.settled) {
            chosen.settled = bounds.largest_success.unwrap_or(failed / 2).max(1);
        }
        Some(Remembered { bounds, ..chosen })
    }

    fn oldest_first(&self) -> impl Iterator<Item = Remembered> {
        self.0.iter().rev().map(Observation::remembered)
    }
}

/// Whether `a` bytes free are at most about `b`; what could not be read compares with its like only.
fn is_at_most(a: Option<u64>, b: Option<u64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a <= b.saturating_add(tolerance(b)),
        (a, b) => a.is_none() && b.is_none(),
    }
}

fn size(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// A number for this run of this program. A forked child is a run of its own.
fn this_run() -> Hex {
    static START: OnceLock<u64> = OnceLock::new();
    let start = START.get_or_init(|| RandomState::new().build_hasher().finish());
    Hex(hash_of((start, process::id())))
}
