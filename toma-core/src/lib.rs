//! The engine of `toma`: run, and when memory runs out, run again with a smaller step.
//!
//! Users depend on the `toma` crate, which re-exports everything here together with the attributes.

pub mod cache;
pub mod chunk;
pub mod classify;
mod contained;
pub mod cpu_memory;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(not(doctest))]
#[allow(dead_code, unused_imports, reason = "the engine moves over next")]
pub mod device;
mod engine;
pub mod execute;
pub mod ladder;
pub mod memory;
#[allow(dead_code, reason = "the engine moves over next")]
mod nesting;
pub mod observe;
mod outcome;
pub mod policy;
#[doc(hidden)]
pub mod private;
mod reserve;
pub mod share;
pub mod stack;
mod switches;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
pub mod thread_state;

pub use observe::report;
pub use outcome::{
    AnyValue, Auto, ByError, ByValue, Classified, Completes, Fallible, Judge, Outcome, Plain, Ready,
};
