//! The attributes on `async fn`.
//!
//! Bodies here are pending in the middle, so that attempts are suspended and others run meanwhile.

mod dropped;
mod hook;
mod neighbors;
mod send;
mod shapes;
mod threads;
mod views;

use toma::classify::OutOfMemory;

use crate::executor::{block_on, pause, poll};
use crate::kit::{OUT_OF_MEMORY, failures, fits};

/// Succeeds for at most `limit` items, after an await.
async fn allocate(items: usize, limit: usize) -> Result<(), OutOfMemory> {
    pause().await;
    fits(items, limit)
}
