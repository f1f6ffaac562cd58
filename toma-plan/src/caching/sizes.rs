//! Sizes and limits, and the rules that follow from them alone.

use super::{Block, Pool};

const MIB: u64 = 1 << 20;

/// Block sizes are multiples of this.
const GRAIN: u64 = 512;
/// The largest size of the small pool.
const LARGEST_SMALL: u64 = MIB;
const SMALL_SEGMENT: u64 = 2 * MIB;
const LARGE_SEGMENT: u64 = 20 * MIB;
/// Sizes from here on get a segment of their own.
const LEAST_OWN_SEGMENT: u64 = 10 * MIB;
const OWN_SEGMENT_GRAIN: u64 = 2 * MIB;
/// libtorch refuses requests of this size and more at once.
pub(super) const REFUSED: u64 = 1 << 60;

impl Pool {
    pub(super) fn of(size: u64) -> Self {
        if size <= LARGEST_SMALL { Self::Small } else { Self::Large }
    }
}

pub(super) fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRAIN)
}

/// Returns the bytes that are cut off a free block when it serves a size.
pub(super) fn rest(free: Block, size: u64) -> u64 {
    let rest = free.bytes - size;
    let is_cut = match free.pool {
        Pool::Small => rest >= GRAIN,
        Pool::Large => rest > LARGEST_SMALL,
    };
    if is_cut { rest } else { 0 }
}

/// Returns the bytes of the segment that is reserved for a rounded size.
pub(super) fn segment_bytes(size: u64) -> u64 {
    match Pool::of(size) {
        Pool::Small => SMALL_SEGMENT,
        Pool::Large if size < LEAST_OWN_SEGMENT => LARGE_SEGMENT,
        Pool::Large => size.next_multiple_of(OWN_SEGMENT_GRAIN),
    }
}
