//! A little memory for the worst moment.
//!
//! A body that filled the memory to the last byte and returned an error must find it handled, but
//! reading the error, remembering what was tried and asking the system how much is free all
//! allocate, and Rust aborts when a small allocation fails. So a block is held from the first call
//! on, given back when a failure is looked at, and taken again once the failed values are gone.

use std::sync::{Mutex, TryLockError};

/// Many times what looking at one failure takes; below the size that allocators map by itself, so
/// that it serves small allocations.
const BYTES: usize = 64 << 10;

static RESERVE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Takes the block, or as much of it as can be had.
///
/// A small piece gives little back when it fails, and that must do for looking at the next failure.
#[cold]
pub(crate) fn hold() {
    with(|reserve| {
        // What cannot be had now may be there after the next failure.
        let sizes = [BYTES, BYTES / 4, BYTES / 16];
        sizes
            .into_iter()
            .any(|bytes| reserve.capacity() >= bytes || reserve.try_reserve_exact(bytes).is_ok());
    });
}

/// Gives the block back to the allocator, for what comes now.
#[cold]
pub(crate) fn release() {
    with(|reserve| *reserve = Vec::new());
}

/// Never waits: this runs inside the panic hook too, and another thread then has the block.
fn with(change: impl FnOnce(&mut Vec<u8>)) {
    match RESERVE.try_lock() {
        Ok(mut reserve) => change(&mut reserve),
        Err(TryLockError::Poisoned(poisoned)) => change(&mut poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {}
    }
}
