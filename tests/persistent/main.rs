//! Sizes that are remembered across runs: what a file holds, what may share it, and what may go wrong
//! with it.
#![cfg(feature = "persistent")]

mod child;
#[path = "../common/executor.rs"]
mod executor;
mod forms;
mod hints;
#[cfg(feature = "testing")]
mod injected;
mod kills;
mod kit;
mod processes;
mod runs;
mod threads;
mod trouble;
mod unfit;
mod warm;
