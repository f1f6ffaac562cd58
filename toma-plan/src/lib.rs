//! What follows from recorded steps of a tensor program.
//!
//! A step that ran at one size says what it would need at another, and in pieces. All of it is arithmetic over
//! what was recorded: no tensor framework, no clock, no device. [`caching`] says what such a step takes from a
//! CUDA device, and where it runs out of memory.

#![forbid(unsafe_code)]

pub mod caching;
mod growth;

pub use growth::{Growth, HeadRoom, Held, Highest, Line, Unlike};
