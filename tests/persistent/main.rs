//! Sizes that are remembered across runs: contents of the file, processes that share it, and files that cannot be used.
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
