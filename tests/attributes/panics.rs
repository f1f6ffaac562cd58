//! Panics: out of memory is tried again, everything else passes through.

use std::panic::{catch_unwind, panic_any};

use toma::NoCache;
use toma::classify::OutOfMemory;

use crate::{OUT_OF_MEMORY, allocate_or_panic, failures, panic_of};

#[toma::batch(initial = 16, cache = NoCache)]
fn panics(size: usize, limit: usize) -> usize {
    allocate_or_panic(size, limit);
    size
}

#[toma::batch(initial = 16, cache = NoCache)]
fn unwraps(size: usize, limit: usize) -> Result<usize, std::io::Error> {
    crate::allocate(size, limit).unwrap();
    Ok(size)
}

#[toma::batch(initial = 16, cache = NoCache)]
fn panics_otherwise(size: usize, runs: &mut usize) -> usize {
    *runs += 1;
    assert!(size > 16, "index out of bounds");
    size
}

#[toma::batch(initial = 16, cache = NoCache)]
fn panics_with<T: Send + Clone + 'static>(size: usize, payload: &T) -> usize {
    if size > 4 {
        panic_any(payload.clone());
    }
    size
}

#[test]
fn out_of_memory_is_tried_again() {
    assert_eq!((panics(4), failures()), (4, 2));
    assert_eq!((unwraps(4).unwrap(), failures()), (4, 2));
    assert_eq!(panics_with(&OutOfMemory::new(None)), 4);
    assert_eq!(panics_with(&OUT_OF_MEMORY), 4);
    assert_eq!(panics_with(&String::from(OUT_OF_MEMORY)), 4);
}

#[test]
fn at_the_floor_the_panic_passes() {
    assert_eq!(panic_of(|| panics(0)), OUT_OF_MEMORY);
    assert_eq!(failures(), 5);
}

#[test]
fn other_panics_pass_at_once_with_their_payload() {
    let mut runs = 0;
    assert_eq!(panic_of(|| panics_otherwise(&mut runs)), "index out of bounds");
    assert_eq!(runs, 1);
    let payload = catch_unwind(|| panics_with(&17_u8)).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&17_u8));
}

#[toma::range(initial = 16, cache = NoCache)]
fn panics_at(start: usize, end: usize, at: usize, done: &mut Vec<usize>) {
    allocate_or_panic(end - start, 4);
    assert!(!(start..end).contains(&at), "this item is bad");
    done.extend(start..end);
}

#[test]
fn a_panic_ends_the_range() {
    let mut done = Vec::new();
    assert_eq!(panic_of(|| panics_at(0, 32, 13, &mut done)), "this item is bad");
    assert_eq!(done, (0..12).collect::<Vec<_>>());
}
