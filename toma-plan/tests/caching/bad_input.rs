//! Calls that are refused, and extremes that are accepted.

use toma_plan::caching::{CachingAllocator, InvalidFree};

use crate::{large, parts};

#[test]
fn zero_bytes_take_nothing_and_are_freed_once() {
    let mut allocator = CachingAllocator::new(0);
    let nothing = allocator.allocate(0).unwrap();
    assert_ne!(allocator.allocate(0).unwrap(), nothing);
    assert_eq!(allocator.stats(), CachingAllocator::new(0).stats());
    assert!(parts(&allocator).is_empty());
    assert_eq!(allocator.free(nothing), Ok(()));
    assert_eq!(allocator.free(nothing), Err(InvalidFree::FreedTwice(nothing)));
}

#[test]
fn a_capacity_of_zero_holds_no_byte() {
    let error = CachingAllocator::new(0).allocate(1).unwrap_err();
    assert_eq!((error.requested_bytes, error.reserved_bytes, error.capacity_bytes), (1, 0, 0));
}

#[test]
fn a_block_is_freed_once() {
    let mut allocator = large();
    let block = allocator.allocate(512).unwrap();
    allocator.free(block).unwrap();
    let again = allocator.allocate(512).unwrap(); // at the same address
    let before = (allocator.stats(), parts(&allocator));
    let error = allocator.free(block).unwrap_err();
    assert_eq!(error, InvalidFree::FreedTwice(block));
    assert_eq!(error.to_string(), "allocation 0 was freed before");
    assert_eq!((allocator.stats(), parts(&allocator)), before);
    assert_eq!(allocator.free(again), Ok(()));
}

#[test]
fn a_block_of_another_allocator_is_unknown() {
    let mut other = large();
    let foreign = [1, 2].map(|bytes| other.allocate(bytes).unwrap())[1];
    let mut allocator = large();
    allocator.allocate(1).unwrap();
    let error = allocator.free(foreign).unwrap_err();
    assert_eq!(error, InvalidFree::Unknown(foreign));
    assert_eq!(error.to_string(), "allocation 1 is not of this allocator");
}

#[test]
fn an_exbibyte_is_refused_before_anything_is_released() {
    let mut allocator = CachingAllocator::new(u64::MAX);
    let freed = allocator.allocate(1).unwrap();
    allocator.free(freed).unwrap();
    for bytes in [1 << 60, u64::MAX] {
        assert_eq!(allocator.allocate(bytes).unwrap_err().requested_bytes, bytes);
    }
    assert_eq!((parts(&allocator).len(), allocator.stats().retries), (1, 0));
    assert!(allocator.allocate((1 << 60) - 1).is_ok());
}

#[test]
fn memory_ends_where_addresses_do() {
    let mut allocator = CachingAllocator::new(u64::MAX);
    // Of two segments of 1 EiB the older one is released each time, so that addresses rise.
    let mut older = allocator.allocate((1 << 60) - 1).unwrap();
    for _ in 0..14 {
        let newer = allocator.allocate((1 << 60) - 1).unwrap();
        allocator.free(older).unwrap();
        allocator.release_cached_memory();
        older = newer;
    }
    assert_eq!(allocator.segments().map(|segment| segment.address).collect::<Vec<_>>(), [14 << 60]);
    assert_eq!(allocator.allocate((1 << 60) - 1).unwrap_err().reserved_bytes, 1 << 60);
}
