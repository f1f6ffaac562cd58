//! cudarc's side of `toma` against a test double of the CUDA driver, without a GPU.
//!
//! Each test runs in a process of its own, whose loader path begins with the folder of the double. The test checks and
//! prints that the double was loaded, even if the machine has a real driver.

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
