//! For the tests of programs that use `toma`: a [device](FakeDevice) that runs out of memory
//! exactly when it should, and [injection](inject) of failures where nothing is wrong.
//!
//! Both need the feature `testing`, which belongs into the `[dev-dependencies]`.

mod device;
#[cfg(test)]
mod device_tests;
pub mod inject;
mod ledger;

pub use device::{FakeBuffer, FakeDevice};
pub use ledger::FakeOutOfMemory;
