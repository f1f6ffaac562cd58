//! The attributes on `async fn`.
//!
//! Bodies here are pending in the middle, so that attempts are suspended and others run meanwhile.

#[path = "../common/child.rs"]
mod child;
#[cfg(feature = "testing")]
mod device;
mod dropped;
#[path = "../common/executor.rs"]
mod executor;
mod hook;
mod neighbors;
mod send;
mod shapes;
mod threads;
mod views;

use toma::classify::OutOfMemory;

use crate::executor::{block_on, pause, poll};

/// Words that mean it.
const OUT_OF_MEMORY: &str = "CUDA out of memory. Tried to allocate 2.00 GiB";

/// Memory for at most `limit` items, after a while.
async fn allocate(items: usize, limit: usize) -> Result<(), OutOfMemory> {
    pause().await;
    if items > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

/// Attempts of the last call that ran out of memory.
fn failures() -> usize {
    toma::report::last().expect("a call ended on this thread").out_of_memory
}
