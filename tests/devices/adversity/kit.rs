//! Runs every form once, with every cache, and with failures of both kinds.

use std::panic::panic_any;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::{DefaultCache, GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::executor::block_on;

pub(crate) type Result<T> = std::result::Result<T, OutOfMemory>;

/// Kind of failure of attempts with more than 2 items.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fails {
    Never,
    ByError,
    ByPanic,
}

impl Fails {
    pub(crate) const ALL: [Self; 3] = [Self::Never, Self::ByError, Self::ByPanic];

    pub(crate) fn attempt(self, size: usize) -> Result<usize> {
        match self {
            Self::ByError if size > 2 => Err(OutOfMemory::new(None)),
            Self::ByPanic if size > 2 => panic_any(OutOfMemory::new(None)),
            _ => Ok(size),
        }
    }
}

#[toma::batch(initial = 8)]
fn batch(size: usize, fails: Fails) -> Result<usize> {
    fails.attempt(size)
}

#[toma::range(initial = 8, cache = GlobalCache)]
fn range(start: i64, end: i64, fails: Fails, done: &mut Vec<i64>) -> Result<()> {
    fails.attempt(usize::try_from(end - start).unwrap())?;
    // The items may already be there, because a failure can be injected after the body.
    done.retain(|&item| item < start);
    done.extend(start..end);
    Ok(())
}

#[toma::chunked(initial = 8, cache = StacktraceMemoryCache)]
fn chunked(data: &mut [u8], start: usize, end: usize, fails: Fails) -> Result<()> {
    fails.attempt(end - start)?;
    data.fill(1);
    Ok(())
}

#[toma::range(initial = 8)]
async fn asynchronous(start: usize, end: usize, fails: Fails, done: &mut usize) -> Result<()> {
    *done = start + fails.attempt(end - start)?;
    Ok(())
}

fn attributes(fails: Fails) {
    let size = batch(fails).unwrap();
    assert!(size <= 8);
    let mut done = Vec::new();
    range(-4, 6, fails, &mut done).unwrap();
    assert_eq!(done, (-4..6).collect::<Vec<_>>());
    let mut data = [0; 10];
    chunked(&mut data, fails).unwrap();
    assert_eq!(data, [1; 10]);
    let mut done = 0;
    block_on(asynchronous(0, 10, fails, &mut done)).unwrap();
    assert_eq!(done, 10);
}

fn inline_forms(cache: &dyn SizeCache, fails: Fails) {
    let with = || execute::with::<NoCache>().cache(cache);
    assert!(with().batch(8, |size| fails.attempt(size)).unwrap() <= 8);
    let mut done = 0;
    with().range(0..10, 8, |start, end| fails.attempt(end - start).map(|size| done = start + size)).unwrap();
    assert_eq!(done, 10);
    let mut data = [0; 10];
    with()
        .chunked(&mut data[..], 8, |chunk, _, _| {
            fails.attempt(chunk.len())?;
            chunk.fill(1);
            Ok::<_, OutOfMemory>(())
        })
        .unwrap();
    assert_eq!(data, [1; 10]);
    let sizes = with().map(0..10, 8, |start, end| fails.attempt(end - start)).unwrap();
    assert_eq!(sizes.iter().sum::<usize>(), 10);
    let sum = with().fold(0..10, 8, 0, |sum, start, end| fails.attempt(end - start).map(|size| sum + size));
    assert_eq!(sum, Ok(10));
}

/// Runs all forms with all caches.
pub(crate) fn every_form(fails: Fails) {
    for cache in
        [&DefaultCache as &dyn SizeCache, &NoCache, GlobalCache::shared(), StacktraceMemoryCache::shared()]
    {
        inline_forms(cache, fails);
    }
    attributes(fails);
}
