//! What a call leaves behind for the next one: the step in force after its last shrink, once that
//! has succeeded, and nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::kit::{GIB, Memory, apart, batch, range, settled};

/// Runs `test` with every cache that remembers.
fn with_each(test: impl Fn(&dyn SizeCache, &dyn Fn() -> Vec<usize>)) {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    test(&global, &|| settled(&global.entries()));
    test(&stacktrace, &|| settled(&stacktrace.entries()));
}

fn above(limit: usize) -> impl FnMut(usize, usize) -> bool {
    move |start, end| end - start > limit
}

#[test]
fn without_a_failure_nothing_is_settled() {
    with_each(|cache, settled| {
        assert_eq!(range(cache, 0, (3, 64), &mut above(64)), [3], "a short range");
        assert_eq!(range(cache, 0, (70, 64), &mut above(64)), [64, 6], "a ragged last piece");
        assert_eq!(range(cache, 0, (8, 2), &mut above(64)), [2, 2, 2, 2], "a smaller initial size");
        assert_eq!(range(cache, 0, (0, 64), &mut above(0)), [0; 0], "an empty range");
        assert_eq!(settled(), [0; 0]);
        assert_eq!(range(cache, 0, (64, 64), &mut above(64)), [64]);
    });
}

/// Sizes of the attempts at one item after another, with `max`.
#[inline(never)]
fn capped(cache: &dyn SizeCache, initial: usize, max: usize, limit: usize) -> Vec<usize> {
    let memory = Memory::new(GIB);
    let mut tried = Vec::new();
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart()).max(max);
    with.batch(initial, |size| {
        tried.push(size);
        if size > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
    })
    .unwrap();
    tried
}

#[test]
fn a_call_starts_at_the_least_of_initial_max_and_settled() {
    with_each(|cache, _| {
        assert_eq!(capped(cache, 64, 1000, 16), [64, 32, 16]);
        for (initial, max, start) in
            [(64, 64, 16), (8, 64, 8), (64, 4, 4), (7, 5, 5), (1000, 16, 16), (1, 1, 1)]
        {
            assert_eq!(capped(cache, initial, max, usize::MAX), [start], "initial {initial}, max {max}");
        }
        assert_eq!(capped(cache, 64, 64, usize::MAX), [16]);
    });
}

#[test]
fn a_failure_in_the_middle_settles_what_was_in_force_last() {
    with_each(|cache, settled| {
        let limit = |start: usize| if start < 32 { 16 } else { 4 };
        let tried = range(cache, 0, (64, 64), &mut |start, end| end - start > limit(start));
        assert_eq!(tried, [64, 32, 16, 16, 16, 8, 4, 4, 4, 4, 4, 4, 4, 4]);
        assert_eq!(settled(), [4]);
    });
}

#[test]
fn a_total_failure_remembers_nothing() {
    with_each(|cache, settled| {
        assert_eq!(range(cache, 0, (64, 64), &mut |_, _| true), [64, 32, 16, 8, 4, 2, 1]);
        assert_eq!(settled(), [0; 0]);
        let tried = range(cache, 0, (64, 64), &mut |start, end| start >= 16 || end - start > 16);
        assert_eq!(tried, [64, 32, 16, 16, 8, 4, 2, 1], "the first piece had settled at 16");
        assert_eq!(settled(), [0; 0]);
        let tried = range(cache, 0, (4, 4), &mut |start, end| start >= 2 || end - start > 1);
        assert_eq!(tried, [4, 2, 1, 1, 1], "the smallest size had settled, and then failed");
        assert_eq!(settled(), [0; 0]);
        assert_eq!(range(cache, 0, (64, 64), &mut above(64)), [64]);
    });
}

#[test]
fn a_size_that_fails_at_the_last_attempt_or_too_late_is_not_remembered() {
    with_each(|cache, settled| {
        let memory = Memory::new(GIB);
        let with = || execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart());
        let fails = |start, size| if start >= 16 || size > 16 { Err(OutOfMemory::new(None)) } else { Ok(()) };
        let ended = with().max_attempts(3).range(0..64, 64, |start, end| fails(start, end - start));
        assert!(ended.is_err());
        let ended = with().deadline(Duration::from_millis(10)).range(0..64, 64, |start, end| {
            if start >= 16 {
                std::thread::sleep(Duration::from_millis(20));
            }
            fails(start, end - start)
        });
        assert!(ended.is_err());
        assert_eq!(settled(), [0; 0]);
    });
}

/// A range of 64 items of which only 16 fit at a time, and which ends in the second piece.
fn ends_by(cache: &dyn SizeCache, end: impl Fn() -> std::io::Result<()>) -> Vec<usize> {
    let memory = Memory::new(GIB);
    let mut tried = Vec::new();
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart());
    let mut body = |start: usize, stop: usize| {
        tried.push(stop - start);
        match (stop - start > 16, start) {
            (true, _) => Err(std::io::ErrorKind::OutOfMemory.into()),
            (false, 0) => Ok(()),
            (false, _) => end(),
        }
    };
    let _ = catch_unwind(AssertUnwindSafe(|| with.range(0..64, 64, &mut body)));
    tried
}

/// What a call keeps while a panic unwinds is found by a call that comes the same way.
#[test]
fn a_call_that_ends_otherwise_after_it_settled_remembers() {
    let poisoned = || Err(std::io::Error::other("CUDA error: an illegal memory access was encountered"));
    let ends: [fn() -> std::io::Result<()>; 3] =
        [|| Err(std::io::Error::other("broken")), || panic!("broken"), poisoned];
    for end in ends {
        with_each(|cache, settled| {
            let tried: Vec<_> = (0..3).map(|_| ends_by(cache, end)).collect();
            assert_eq!(tried, [&[64, 32, 16, 16][..], &[16, 16], &[16, 16]]);
            assert_eq!(settled(), [16]);
        });
    }
}

#[test]
fn a_call_that_ends_otherwise_before_it_settled_remembers_nothing() {
    with_each(|cache, settled| {
        let memory = Memory::new(GIB);
        let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart());
        let out_of_memory = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let ended: std::io::Result<()> = with
            .batch(64, |size| Err(if size > 16 { out_of_memory() } else { std::io::Error::other("broken") }));
        assert_eq!(ended.unwrap_err().to_string(), "broken");
        assert_eq!(settled(), [0; 0]);
    });
}

#[toma::range(initial = 64, cache = &*cache, device = *memory, ladder = crate::kit::apart())]
async fn waits(start: usize, end: usize, cache: &dyn SizeCache, memory: &Memory) -> Result<(), OutOfMemory> {
    if end - start > 16 {
        return Err(OutOfMemory::new(None));
    }
    if start > 0 {
        std::future::pending::<()>().await;
    }
    Ok(())
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_dropped_future_remembers_what_had_settled() {
    with_each(|cache, settled| {
        let memory = Memory::new(GIB);
        let mut future = Box::pin(waits(0, 64, cache, &memory));
        for _ in 0..10 {
            assert!(poll(future.as_mut()).is_pending());
        }
        assert_eq!(settled(), [0; 0], "it is remembered when the call is over");
        drop(future);
        assert_eq!(settled(), [16]);
    });
}

#[test]
fn a_future_dropped_before_it_settled_remembers_nothing() {
    with_each(|cache, settled| {
        let memory = Memory::new(GIB);
        let mut future = Box::pin(waits(0, 64, cache, &memory));
        assert!(poll(future.as_mut()).is_pending(), "the first retry lets others run");
        drop(future);
        drop(waits(0, 64, cache, &memory));
        assert_eq!(settled(), [0; 0]);
    });
}

#[test]
fn evidence_is_kept_with_the_size() {
    let (sizes, memory) = (StacktraceMemoryCache::new(), Memory::new(3 * GIB));
    let before = std::time::SystemTime::now();
    batch(&sizes, &memory, 100, 30);
    let [entry] = &sizes.entries()[..] else { panic!("one entry") };
    let remembered = entry.remembered.clone();
    assert_eq!((remembered.settled, remembered.free_bytes), (25, Some(3 * GIB)));
    assert_eq!(remembered.bounds.largest_success, Some(25));
    assert_eq!(remembered.bounds.smallest_failure, Some(50));
    assert!(before <= remembered.learned && remembered.learned <= std::time::SystemTime::now());
}

#[test]
fn a_call_that_learns_nothing_new_changes_nothing() {
    let (sizes, memory) = (StacktraceMemoryCache::new(), Memory::new(3 * GIB));
    batch(&sizes, &memory, 100, 30);
    let before = sizes.entries()[0].remembered.clone();
    for _ in 0..10 {
        batch(&sizes, &memory, 100, 30);
        batch(&sizes, &memory, 3, 30);
    }
    assert_eq!(sizes.entries()[0].remembered, before);
}
