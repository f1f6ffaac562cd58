//! `max_split_size`, worked out by hand.

use toma_plan::caching::{CachingAllocator, Settings};

use crate::MIB;
use crate::Part::{Free, Used};
use crate::parts;

fn allocator(capacity: u64, max_split_size: u64) -> CachingAllocator {
    CachingAllocator::new(Settings::new(capacity).max_split_size(max_split_size).unwrap())
}

/// Requests where blocks from 32 MiB on are oversize: bytes of a free block, requested bytes, and bytes of the block
/// that serves them if the free block does.
const REQUESTS: &[(u64, u64, Option<u64>)] = &[
    // Blocks below 32 MiB behave as usual.
    (30 * MIB, 2 * MIB, Some(2 * MIB)),
    (30 * MIB, 30 * MIB, Some(30 * MIB)),
    // An oversize block serves no other size.
    (32 * MIB, 2 * MIB, None),
    (32 * MIB, 32 * MIB - 512, None),
    (32 * MIB, 32 * MIB - 511, Some(32 * MIB)),
    (32 * MIB, 32 * MIB, Some(32 * MIB)),
    (36 * MIB, 32 * MIB, Some(36 * MIB)),
    // An oversize block is never split, and not used if 20 MiB would be wasted.
    (52 * MIB, 32 * MIB, None),
    (52 * MIB, 32 * MIB + 1, Some(52 * MIB)),
    (60 * MIB, 40 * MIB + 512, Some(60 * MIB)),
    (60 * MIB, 40 * MIB, None),
];

#[test]
fn a_request_to_a_free_block() {
    for &(cached, requested, taken) in REQUESTS {
        let mut allocator = allocator(1 << 40, 32 * MIB);
        let first = allocator.allocate(cached).unwrap();
        allocator.free(first).unwrap();
        allocator.allocate(requested).unwrap();
        let serves = allocator.segments().count() == 1;
        let allocated = allocator.stats().allocated.current;
        assert_eq!(serves.then_some(allocated), taken, "of {requested} where {cached} are free");
    }
}

#[test]
fn the_smallest_oversize_block_that_is_enough_is_released_first() {
    let mut allocator = allocator(146 * MIB, 32 * MIB);
    let ids = [60, 42, 40, 1].map(|mib| allocator.allocate(mib * MIB).unwrap());
    for id in ids {
        allocator.free(id).unwrap();
    }
    // The block of 40 MiB serves; the larger ones stay, and so does the small segment, which a retry would release.
    allocator.allocate(36 * MIB).unwrap();
    assert_eq!(parts(&allocator), [[Free(60 * MIB)], [Free(42 * MIB)], [Used(40 * MIB)], [Free(2 * MIB)]]);
    // The request is over 20 MiB smaller than all of them, so none serves; the one of 42 MiB makes room.
    allocator.allocate(2 * MIB).unwrap();
    assert_eq!(
        parts(&allocator),
        [
            vec![Free(60 * MIB)],
            vec![Used(40 * MIB)],
            vec![Free(2 * MIB)],
            vec![Used(2 * MIB), Free(18 * MIB)]
        ]
    );
    assert_eq!(allocator.stats().retries, 0);
}

#[test]
fn otherwise_the_largest_ones_until_they_are_enough() {
    let mut allocator = allocator(134 * MIB, 32 * MIB);
    let ids = [32, 40, 36, 1].map(|mib| allocator.allocate(mib * MIB).unwrap());
    for id in ids {
        allocator.free(id).unwrap();
    }
    allocator.allocate(76 * MIB).unwrap();
    assert_eq!(parts(&allocator), [[Free(32 * MIB)], [Free(2 * MIB)], [Used(76 * MIB)]]);
    assert_eq!(allocator.stats().retries, 0);
}
