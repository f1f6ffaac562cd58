//! Sizes by cost: what is packed together, what is tried, what is left out, what is learned.

mod against_twin;
#[path = "../common/executor.rs"]
mod executor;
mod extremes;
mod learning;
#[cfg(feature = "testing")]
mod measuring;
#[cfg(feature = "testing")]
mod oversize;
mod packed;
mod seen;
mod set_aside;
mod twin;
