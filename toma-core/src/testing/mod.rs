//! For the tests of programs that use `toma`: a [device](FakeDevice) that runs out of memory at an exact byte,
//! [injection](inject) of failures into code without any, and a [clock](StoppedClock) that moves only when a test
//! advances it.
//!
//! All need the feature `testing`, which belongs into the `[dev-dependencies]`.

mod device;
#[cfg(test)]
mod device_tests;
pub mod inject;
mod ledger;

pub use crate::clock::StoppedClock;
pub use device::{FakeBuffer, FakeDevice};
pub use ledger::FakeOutOfMemory;
