//! For the tests of programs that use `toma`: a [device](FakeDevice) that runs out of memory
//! exactly when it should, [injection](inject) of failures where nothing is wrong, and a
//! [clock](StoppedClock) that moves when it is told to.
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
