//! Tests which iterators and streams share a cache entry: the rules are those of the other forms, wherever the values
//! are consumed.

use toma::classify::OutOfMemory;
use toma::{StacktraceMemoryCache, execute};

use crate::lazy::block_on;

type Rows = Box<dyn Iterator<Item = Result<usize, OutOfMemory>>>;

/// A call at one line that several functions reach.
#[inline(never)]
fn rows(cache: &'static StacktraceMemoryCache, limit: usize) -> Rows {
    let form = execute::with::<toma::NoCache>().cache(cache);
    Box::new(form.iter(0..16, 16, move |start, end| {
        if end - start > limit { Err(OutOfMemory::new(None)) } else { Ok(end - start) }
    }))
}

#[inline(never)]
fn with_large_images(cache: &'static StacktraceMemoryCache) -> Rows {
    std::hint::black_box(rows(cache, 2))
}

#[inline(never)]
fn with_small_images(cache: &'static StacktraceMemoryCache) -> Rows {
    std::hint::black_box(rows(cache, 8))
}

fn leaked() -> &'static StacktraceMemoryCache {
    Box::leak(Box::default())
}

#[test]
fn calls_from_different_functions_are_distinguished() {
    let cache = leaked();
    for _ in 0..2 {
        assert_eq!(with_large_images(cache).next(), Some(Ok(2)));
        assert_eq!(with_small_images(cache).next(), Some(Ok(8)));
    }
    assert_eq!(cache.entries().len(), 2);
}

#[test]
fn it_does_not_matter_where_a_call_ends() {
    #[inline(never)]
    fn ends_elsewhere(mut rows: Rows) {
        assert_eq!(rows.next(), Some(Ok(2)));
        drop(std::hint::black_box(rows));
    }

    let cache = leaked();
    for round in 0..4 {
        let mut calls = 0;
        let form = execute::with::<toma::NoCache>().cache(cache);
        let rows = form.iter(0..4, 16, |start, end| {
            calls += 1;
            if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(end - start) }
        });
        match round % 2 {
            0 => assert_eq!(rows.map(Result::unwrap).sum::<usize>(), 4),
            _ => drop(rows.collect::<Vec<_>>()),
        }
        assert_eq!(calls, if round == 0 { 3 } else { 2 }, "one line, one function: one entry");
    }
    ends_elsewhere(with_large_images(cache));
    ends_elsewhere(with_large_images(cache));
    assert_eq!(cache.entries().len(), 2);
}

#[test]
fn streams_are_known_by_their_line() {
    fn learn(cache: &StacktraceMemoryCache) -> usize {
        let tried = std::cell::Cell::new(0);
        let form = execute::with::<toma::NoCache>().cache(cache);
        let mut rows = form.stream(0..4, 4, async |start, end| {
            tried.set(tried.get() + 1);
            if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        });
        while let Some(row) = block_on(rows.next()) {
            row.unwrap();
        }
        tried.get()
    }

    #[inline(never)]
    fn from_elsewhere(cache: &StacktraceMemoryCache) -> usize {
        std::hint::black_box(learn(cache))
    }

    let cache = StacktraceMemoryCache::new();
    assert_eq!((learn(&cache), learn(&cache), from_elsewhere(&cache)), (3, 2, 2));
    assert_eq!(cache.entries().len(), 1);
}
