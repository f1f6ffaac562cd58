//! The replay of the caching allocator: tables worked out by hand, a naive twin, and bad input.

mod against_twin;
mod as_cuda;
mod bad_input;
mod tables;
mod twin;

use toma_plan::caching::{Block, CachingAllocator};

pub(crate) const MIB: u64 = 1 << 20;

/// A block in the notation of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Used(u64),
    Free(u64),
}

/// The blocks of each segment, by address.
pub(crate) fn parts(allocator: &CachingAllocator) -> Vec<Vec<Part>> {
    let part = |block: &Block| match block.requested {
        Some(_) => Part::Used(block.bytes),
        None => Part::Free(block.bytes),
    };
    allocator.segments().map(|segment| segment.blocks.iter().map(part).collect()).collect()
}

/// An allocator with more memory than any table needs.
pub(crate) fn large() -> CachingAllocator {
    CachingAllocator::new(1 << 40)
}
