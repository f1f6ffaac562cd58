//! The latest evidence of a call, as it is stored in the file.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::entry::CallKey;
use crate::cache::Remembered;
use crate::policy::{Bounds, Measurements, Sample};

/// Evidence that a call has learned last. Of its measurements it has those of sizes, because the spent time and the
/// failures in a row belong to one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Observation {
    pub(super) call: CallKey,
    learned: SystemTime,
    settled: usize,
    largest_success: Option<usize>,
    smallest_failure: Option<usize>,
    failure_available_bytes: Option<u64>,
    samples: Vec<OneSample>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct OneSample(#[serde(with = "SampleText")] Sample);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Sample")]
struct SampleText {
    size: usize,
    time: Option<Duration>,
    repeated: Duration,
    bytes: Option<u64>,
}

impl Observation {
    pub(super) fn new(call: CallKey, learned: &Remembered) -> Self {
        let &Remembered { settled, bounds, learned, ref measurements, .. } = learned;
        let Bounds { largest_success, smallest_failure } = bounds;
        let measurements = measurements.as_deref().copied().unwrap_or_default();
        let Measurements { failure_available_bytes, samples, .. } = measurements;
        let samples = samples.iter().map(OneSample).collect();
        Self { call, learned, settled, largest_success, smallest_failure, failure_available_bytes, samples }
    }

    pub(super) fn remembered(&self) -> Remembered {
        let &Self { learned, settled, largest_success, smallest_failure, failure_available_bytes, .. } = self;
        let bounds = Bounds { largest_success, smallest_failure };
        let samples = self.samples.iter().map(|&OneSample(sample)| sample).collect();
        let measured = Measurements { failure_available_bytes, samples, ..Measurements::default() };
        // None without samples, so that a warm call of a policy that measures nothing copies nothing.
        let measurements = (!self.samples.is_empty()).then(|| Arc::new(measured));
        Remembered { bounds, learned, measurements, ..Remembered::new(settled) }
    }
}
