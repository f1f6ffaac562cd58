//! Results of the rules, worked out by hand. Sequences of requests are tested against the twin.

use toma_plan::caching::CachingAllocator;

use crate::Part::{Free, Used};
use crate::{MIB, large, parts};

/// Requested bytes, bytes of the block, bytes of its segment.
const FIRST_REQUESTS: &[(u64, u64, u64)] = &[
    (1, 512, 2 * MIB),
    (511, 512, 2 * MIB),
    (512, 512, 2 * MIB),
    (513, 1024, 2 * MIB),
    (MIB - 1, MIB, 2 * MIB),
    (MIB, MIB, 2 * MIB),
    (MIB + 1, MIB + 512, 20 * MIB),
    // The last size that shares a segment, and the first that has one of its own.
    (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
    (10 * MIB - 511, 10 * MIB, 10 * MIB),
    (10 * MIB - 1, 10 * MIB, 10 * MIB),
    (10 * MIB, 10 * MIB, 10 * MIB),
    (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
    // A rest of 1 MiB stays in the block, a larger one is split off.
    (11 * MIB - 512, 11 * MIB - 512, 12 * MIB),
    (11 * MIB, 12 * MIB, 12 * MIB),
    (20 * MIB - 1, 20 * MIB, 20 * MIB),
    (20 * MIB, 20 * MIB, 20 * MIB),
    (20 * MIB + 1, 20 * MIB + 512, 22 * MIB),
    (21 * MIB, 22 * MIB, 22 * MIB),
];

#[test]
fn a_first_request() {
    for &(requested, allocated, reserved) in FIRST_REQUESTS {
        let mut allocator = large();
        allocator.allocate(requested).unwrap();
        let figures = allocator.stats();
        assert_eq!(figures.requested.current, requested);
        assert_eq!(figures.allocated.current, allocated, "of {requested}");
        assert_eq!(figures.reserved.current, reserved, "of {requested}");
        let rest = (allocated < reserved).then_some(Free(reserved - allocated));
        let expected: Vec<_> = [Used(allocated)].into_iter().chain(rest).collect();
        assert_eq!(parts(&allocator), [expected], "of {requested}");
    }
}

/// Requested bytes with a single free block of `cached` bytes, and bytes of the resulting block if that one serves.
const LATER_REQUESTS: &[(u64, u64, Option<u64>)] = &[
    // In the small pool a rest of 512 bytes is split off.
    (2 * MIB, 512, Some(512)),
    (2 * MIB, MIB, Some(MIB)),
    // In the large pool a rest of more than 1 MiB is split off.
    (20 * MIB, MIB + 512, Some(MIB + 512)),
    (20 * MIB, 19 * MIB - 512, Some(19 * MIB - 512)),
    (20 * MIB, 19 * MIB - 511, Some(20 * MIB)),
    (20 * MIB, 19 * MIB, Some(20 * MIB)),
    (20 * MIB, 20 * MIB, Some(20 * MIB)),
    (20 * MIB, 20 * MIB + 1, None),
    // No pool serves the sizes of the other.
    (20 * MIB, MIB, None),
    (2 * MIB, MIB + 1, None),
    // By default a block of any size is split.
    (4096 * MIB, 2 * MIB, Some(2 * MIB)),
];

#[test]
fn a_request_to_a_free_block() {
    for &(cached, requested, taken) in LATER_REQUESTS {
        let mut allocator = large();
        let first = allocator.allocate(if cached == 2 * MIB { 1 } else { cached }).unwrap();
        allocator.free(first).unwrap();
        assert_eq!(parts(&allocator), [[Free(cached)]]);
        allocator.allocate(requested).unwrap();
        let serves = allocator.segments().count() == 1;
        let allocated = allocator.stats().allocated.current;
        assert_eq!(serves.then_some(allocated), taken, "of {requested} where {cached} are free");
    }
}

#[test]
fn the_best_fit_serves_and_of_equals_the_lowest_address() {
    let mut allocator = large();
    let ids = [3, 1, 2, 1, 2].map(|mib| {
        let id = allocator.allocate(mib * MIB + 512).unwrap();
        allocator.allocate(MIB + 512).unwrap(); // keeps free neighbors apart
        id
    });
    let sizes = |allocator: &CachingAllocator| -> Vec<_> {
        let parts = parts(allocator).concat();
        parts.into_iter().filter(|part| *part != Used(MIB + 512)).collect()
    };
    for id in [ids[4], ids[2], ids[0]] {
        allocator.free(id).unwrap();
    }
    let (three, two, rest) = (3 * MIB + 512, 2 * MIB + 512, 20 * MIB - 14 * MIB - 10 * 512);
    assert_eq!(sizes(&allocator), [Free(three), Free(two), Free(two), Free(rest)]);
    allocator.allocate(2 * MIB).unwrap();
    assert_eq!(sizes(&allocator), [Free(three), Used(two), Free(two), Free(rest)]);
    allocator.allocate(2 * MIB).unwrap();
    assert_eq!(sizes(&allocator), [Free(three), Used(two), Used(two), Free(rest)]);
    allocator.allocate(2 * MIB).unwrap();
    // The rest of 1 MiB + 512 bytes is more than 1 MiB.
    assert_eq!(sizes(&allocator), [Used(2 * MIB), Free(MIB + 512), Used(two), Used(two), Free(rest)]);
}

#[test]
fn the_capacity_holds_segments_to_the_byte() {
    for (capacity, fits) in [(22 * MIB, true), (22 * MIB - 1, false)] {
        let mut allocator = CachingAllocator::new(capacity);
        allocator.allocate(2 * MIB).unwrap();
        assert_eq!(allocator.allocate(1).is_ok(), fits, "{capacity}");
    }
}

#[test]
fn out_of_memory_is_a_retry_and_leaves_no_cached_segment() {
    let mut allocator = CachingAllocator::new(44 * MIB);
    let kept = allocator.allocate(2 * MIB).unwrap();
    let freed = allocator.allocate(20 * MIB).unwrap();
    allocator.allocate(1).unwrap();
    allocator.free(freed).unwrap();
    let error = allocator.allocate(24 * MIB).unwrap_err();
    assert_eq!((error.requested_bytes, error.capacity_bytes), (24 * MIB, 44 * MIB));
    assert_eq!((error.reserved_bytes, error.allocated_bytes), (22 * MIB, 2 * MIB + 512));
    assert_eq!(allocator.stats().retries, 1);
    assert_eq!(
        error.to_string(),
        "no segment for 25165824 bytes: 23068672 of 46137344 bytes are reserved, 2097664 allocated"
    );
    // Free blocks inside of a segment in use serve as before.
    allocator.allocate(18 * MIB).unwrap();
    allocator.free(kept).unwrap();
    assert_eq!(allocator.stats().retries, 1);
}
