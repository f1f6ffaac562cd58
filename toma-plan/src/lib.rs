//! Plans that are computed from recorded steps of a tensor program.
//!
//! | | |
//! |---|---|
//! | [`Growth`] | predicts the bytes of a step at other sizes and in pieces, and the largest size that fits |
//! | [`Rows`] | decides if the rows of a batch are computed independently, so that pieces add up to the whole |
//! | [`caching`] | replays the allocations on a CUDA device, and where they run out of memory |
//! | [`checkpoint`] | plans that save fewer activations for backward and recompute stages |
//! | [`residency`] | plans that evict storages from a device while nothing uses them |
//!
//! All of it is arithmetic over [recorded](toma_trace) steps: no tensor framework, no clock, no device.

#![forbid(unsafe_code)]

mod alike;
pub mod caching;
pub mod checkpoint;
mod growth;
pub mod residency;
mod rows;

pub use alike::Unlike;
pub use growth::{Growth, Highest, Line, LiveBlock};
pub use rows::{Combined, Coupled, Coupling, DATA, GRADIENTS, Judged, RESULT, Rows};
