//! A small block of memory that is freed while a failure is handled.
//!
//! A body that filled the memory to the last byte and returned an error must find it handled, but reading the
//! error, remembering the tried sizes and asking the system for the free memory all allocate, and Rust aborts when
//! a small allocation fails. So a block is held from the first call on, freed when a failure is classified, and
//! taken again once the failed values are gone.

use std::sync::{Mutex, TryLockError};

/// Many times the bytes that handling one failure takes, but less than the size for which allocators make a
/// separate mapping, so that the freed block serves small allocations.
const BYTES: usize = 64 << 10;

static RESERVE: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Takes the block, or as large a part of it as is available.
///
/// A small part frees few bytes at the next failure, and those must then suffice for handling it.
#[cold]
pub(crate) fn hold() {
    with(|reserve| {
        // A size that is not available now may be available after the next failure.
        let sizes = [BYTES, BYTES / 4, BYTES / 16];
        sizes
            .into_iter()
            .any(|bytes| reserve.capacity() >= bytes || reserve.try_reserve_exact(bytes).is_ok());
    });
}

/// Gives the block back to the allocator, for the allocations that follow.
#[cold]
pub(crate) fn release() {
    with(|reserve| *reserve = Vec::new());
}

/// Never waits, because this runs inside the panic hook too; another thread that holds the lock has the block.
fn with(change: impl FnOnce(&mut Vec<u8>)) {
    match RESERVE.try_lock() {
        Ok(mut reserve) => change(&mut reserve),
        Err(TryLockError::Poisoned(poisoned)) => change(&mut poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {}
    }
}
