//! What follows from recorded steps of a tensor program.
//!
//! | | |
//! |---|---|
//! | [`Growth`] | the bytes a step needs at other sizes and in pieces, and the largest size that fits |
//! | [`Rows`] | whether the rows of a batch are worked on by themselves, so that pieces add up to the whole |
//! | [`caching`] | what they take from a CUDA device, and where it runs out of memory |
//! | [`checkpoint`] | plans that hold less for backward and run stages again |
//! | [`residency`] | plans that move storages off a device while nothing uses them |
//!
//! All of it is arithmetic over what was [recorded](toma_trace): no tensor framework, no clock, no device.

#![forbid(unsafe_code)]

mod alike;
pub mod caching;
pub mod checkpoint;
mod growth;
pub mod residency;
mod rows;

pub use alike::Unlike;
pub use growth::{Growth, HeadRoom, Highest, Line, LiveBlock};
pub use rows::{Combined, Coupled, Coupling, DATA, Judged, RESULT, Rows};
