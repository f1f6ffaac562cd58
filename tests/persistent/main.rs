//! Sizes that are remembered across runs: what a file holds, what may share it, and what may go wrong
//! with it.
#![cfg(all(feature = "persistent", feature = "testing"))]

#[path = "../common/child.rs"]
mod child;
#[path = "../common/executor.rs"]
mod executor;
mod forms;
mod injected;
mod kit;
mod runs;
mod together;
mod trouble;
mod warm;
