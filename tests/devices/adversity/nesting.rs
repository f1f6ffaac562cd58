//! Calls inside calls.

use std::cell::Cell;

use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, execute};

use crate::executor::poll;
use crate::kit::{OUT_OF_MEMORY, fits};

type Result<T> = std::result::Result<T, OutOfMemory>;

/// Nests calls. The innermost one works at size 1 only, and handles its own failures: a panic, and then an error.
fn deep(levels: usize, leaf: &Cell<usize>) -> Result<usize> {
    execute::range(0..1, 1, |_, _| Ok(()))?;
    if levels == 0 {
        leaf.set(leaf.get() + 1);
        return execute::batch(4, |size| {
            assert!(size < 4, "{OUT_OF_MEMORY}");
            fits(size, 1).map(|()| size)
        });
    }
    match levels % 4 {
        0 => execute::batch(4, |_| deep(levels - 1, leaf)),
        1 => {
            let mut found = 0;
            execute::range(0..1, 4, |_, _| deep(levels - 1, leaf).map(|size| found = size))?;
            Ok(found)
        }
        2 => execute::fold(0..1, 4, 0, |_, _, _| deep(levels - 1, leaf)),
        _ => Ok(execute::map(0..1, 4, |_, _| deep(levels - 1, leaf))?[0]),
    }
}

#[test]
fn fifty_levels_work() {
    let leaf = Cell::new(0);
    assert_eq!(deep(50, &leaf), Ok(1));
    assert_eq!(leaf.get(), 1, "no outer level had to try again");
    assert_eq!(deep(50, &leaf), Ok(1));
}

/// Calls itself at one line: the outer and the inner call share a cache entry, and each keeps its own step.
fn same_line(sizes: &GlobalCache, depth: usize, tried: &Cell<usize>) -> Result<()> {
    let with = execute::with::<NoCache>().cache(sizes);
    with.range(0..4, 4, |start, end| {
        tried.set(tried.get() + 1);
        if depth == 0 {
            return fits(end - start, 1);
        }
        same_line(sizes, depth - 1, tried)
    })
}

#[test]
fn a_line_that_calls_itself_keeps_its_steps_apart() {
    let (sizes, tried) = (GlobalCache::new(), Cell::new(0));
    same_line(&sizes, 1, &tried).unwrap();
    assert_eq!(tried.replace(0), 1 + 6, "the outer piece of 4, and 4, 2, 1, 1, 1, 1 inside");
    same_line(&sizes, 1, &tried).unwrap();
    assert_eq!(tried.get(), 4 + 4 * 4, "what the inner call learned is where both start now");
}

#[toma::batch(initial = 8, cache = &*sizes)]
async fn waits(size: usize, sizes: &GlobalCache) -> Result<()> {
    fits(size, 2)?;
    std::future::pending().await
}

#[test]
fn a_future_that_is_leaked_mid_await_disturbs_no_other_call() {
    let sizes: &'static GlobalCache = Box::leak(Box::default());
    let mut future = Box::pin(waits(sizes));
    for _ in 0..5 {
        assert!(poll(future.as_mut()).is_pending());
    }
    std::mem::forget(future);
    assert!(sizes.entries().is_empty());
    let other = execute::with::<NoCache>().cache(sizes).batch(8, |size| size);
    assert_eq!(other, 8);
}
