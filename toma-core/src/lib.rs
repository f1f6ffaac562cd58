//! The engine of `toma`: run, and when memory runs out, run again with a smaller step.
//!
//! Users depend on the `toma` crate, which re-exports everything here together with the attributes.

pub mod classify;
pub mod memory;
pub mod observe;
