//! What a policy has measured, as it stands in the file: in whole numbers.
//!
//! What it says of the moment (failures and retries in a row) is left out: another run has not had them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy::{Measurements, Sample, Samples};

/// A [`Measurements`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredMeasurements {
    time_us: u64,
    wasted_us: u64,
    failure_age_us: u64,
    failure_cost_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_available_bytes: Option<u64>,
    clean_runs: u32,
    known_runs: u32,
    confirmed: u32,
    samples: Vec<StoredSample>,
}

/// A [`Sample`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct StoredSample {
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeated_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl From<&StoredMeasurements> for Measurements {
    fn from(stored: &StoredMeasurements) -> Self {
        Self {
            time: Duration::from_micros(stored.time_us),
            wasted: Duration::from_micros(stored.wasted_us),
            failure_age: Duration::from_micros(stored.failure_age_us),
            failure_cost: Duration::from_micros(stored.failure_cost_us),
            failure_available_bytes: stored.failure_available_bytes,
            clean_runs: stored.clean_runs,
            known_runs: stored.known_runs,
            confirmed: stored.confirmed,
            samples: stored.samples.iter().filter_map(StoredSample::sample).collect::<Samples>(),
            ..Self::default()
        }
    }
}

impl From<&Measurements> for StoredMeasurements {
    fn from(measurements: &Measurements) -> Self {
        Self {
            time_us: micros(measurements.time),
            wasted_us: micros(measurements.wasted),
            failure_age_us: micros(measurements.failure_age),
            failure_cost_us: micros(measurements.failure_cost),
            failure_available_bytes: measurements.failure_available_bytes,
            clean_runs: measurements.clean_runs,
            known_runs: measurements.known_runs,
            confirmed: measurements.confirmed,
            samples: measurements.samples.iter().map(StoredSample::of).collect(),
        }
    }
}

impl StoredSample {
    fn of(sample: Sample) -> Self {
        let repeated_us = Some(micros(sample.repeated)).filter(|&time| time > 0);
        let time_us = sample.time.map(micros);
        Self { size: sample.size as u64, time_us, repeated_us, bytes: sample.bytes }
    }

    /// A size that this machine cannot have teaches it nothing.
    fn sample(&self) -> Option<Sample> {
        let size = usize::try_from(self.size).ok()?;
        let time = self.time_us.map(Duration::from_micros);
        let repeated = Duration::from_micros(self.repeated_us.unwrap_or_default());
        Some(Sample { size, time, repeated, bytes: self.bytes })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
