//! The engine of `toma`: runs a body and, when memory runs out, runs it again with a smaller step.
//!
//! Users depend on the `toma` crate, which re-exports everything here together with the attributes.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod cache;
mod call_site;
pub mod chunk;
pub mod classify;
mod clock;
mod contained;
pub mod device;
mod engine;
pub mod execute;
pub mod leaner;
pub mod marks;
pub mod memory;
mod nesting;
pub mod observe;
mod outcome;
pub mod policy;
pub mod predict;
#[doc(hidden)]
pub mod private;
pub mod ranks;
pub mod report;
mod reserve;
mod shield;
pub mod stack;
mod switches;
mod task;
#[cfg(feature = "testing")]
pub mod testing;
mod text;
pub mod thread_state;

#[cfg(feature = "persistent")]
pub use cache::persistent::PersistentCache;
pub use cache::{
    default::DefaultCache, global::GlobalCache, none::NoCache, stacktrace::StacktraceMemoryCache,
};
pub use outcome::{
    AnyValue, Auto, ByError, ByValue, Classified, Completes, Fallible, Judge, Outcome, Plain, Ready,
};
pub use policy::{adaptive::Adaptive, bisect::Bisect, decay::Decay, halve::Halve, throughput::Throughput};
