//! Panics that say out of memory are tried again, whatever their payload. What passes through, and where, is in
//! `tests/rules` for every form.

use std::panic::panic_any;

use toma::NoCache;
use toma::classify::OutOfMemory;

use crate::{OUT_OF_MEMORY, allocate_or_panic, failures};

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
