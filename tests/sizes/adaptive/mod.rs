//! The policies that measure: what they find, what they predict, and what that costs. In simulated
//! time, on a device that only counts.

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
