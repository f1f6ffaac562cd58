//! cudarc's side of `toma` against a test double of the CUDA driver, without a GPU.
//!
//! Each test runs in a process of its own, whose loader path begins with the folder of the double:
//! that the double is what was loaded, also where there is a real driver, is checked and printed.

#![cfg(target_os = "linux")]

mod absent;
mod chunks;
mod classes;
mod device;
/// A library of its own, see [`stage`]; here only for the lints and the formatter.
#[cfg(clippy)]
mod double;
mod dropping;
mod function;
mod shrinking;
mod stage;
