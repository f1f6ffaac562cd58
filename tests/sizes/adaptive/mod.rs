//! The policies that measure: the sizes they find and predict, and their cost. Run in simulated time, on a device that
//! only counts bytes.

#![cfg(feature = "testing")]
#![expect(clippy::cast_precision_loss, reason = "the tests' numbers are small")]

mod batches;
mod free;
mod peaks;
mod prediction;
mod ranges;
mod throughput;
mod trouble;
mod world;
