//! Observation of a call: every event in order, its report, and its `tracing` events.

#![expect(clippy::needless_raw_string_hashes, reason = "as expect-test writes them when it updates")]

mod durations;
mod everywhere;
#[cfg(feature = "testing")]
mod explained;
mod gave_up;
mod last;
mod panics;
mod record;
mod reports;
mod shown;
mod stream;
#[cfg(feature = "tracing")]
mod subscriber;
#[cfg(feature = "tracing")]
mod traced;
mod world;
