//! What a call leaves behind for the next one: the step in force after its last shrink, once that
//! has succeeded, and nothing else. What calls that end well or give up leave is in [`crate::model`];
//! here are the other ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

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
fn the_second_call_starts_where_the_first_one_ended() {
    with_each(|cache, _| {
        assert_eq!(range(cache, 0, (64, 64), &mut above(20)), [64, 32, 16, 16, 16, 16]);
        assert_eq!(range(cache, 0, (64, 64), &mut above(20)), [16, 16, 16, 16]);
    });
}

#[cfg(feature = "testing")]
#[test]
fn a_size_that_fails_too_late_is_not_remembered() {
    use std::time::Duration;

    let clock = toma::testing::StoppedClock::new();
    with_each(|cache, settled| {
        let memory = Memory::new(GIB);
        let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart());
        let ended = with.deadline(Duration::from_secs(10)).range(0..64, 64, |start, end| {
            if start >= 16 {
                clock.advance(Duration::from_secs(10));
            }
            if start >= 16 || end - start > 16 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        });
        assert!(ended.is_err());
        assert_eq!(toma::report::last().unwrap().gave_up, Some(toma::observe::Reason::Deadline));
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

#[test]
fn a_call_that_ends_otherwise_after_it_settled_remembers() {
    with_each(|cache, settled| {
        assert_eq!(ends_by(cache, || Err(std::io::Error::other("broken"))), [64, 32, 16, 16]);
        assert_eq!(settled(), [16]);
    });
    with_each(|cache, settled| {
        assert_eq!(ends_by(cache, || panic!("broken")), [64, 32, 16, 16]);
        assert_eq!(settled(), [16]);
    });
    let poisoned = || Err(std::io::Error::other("CUDA error: an illegal memory access was encountered"));
    with_each(|cache, settled| {
        assert_eq!(ends_by(cache, poisoned), [64, 32, 16, 16]);
        assert_eq!(settled(), [16]);
    });
}

/// What a call keeps while a panic unwinds is found by a call that comes the same way.
#[test]
fn what_a_call_remembers_when_it_ends_otherwise_is_where_the_next_one_starts() {
    let ends: [fn() -> std::io::Result<()>; 2] =
        [|| Err(std::io::Error::other("broken")), || panic!("broken")];
    for end in ends {
        with_each(|cache, _| {
            let tried: Vec<_> = (0..3).map(|_| ends_by(cache, end)).collect();
            assert_eq!(tried, [&[64, 32, 16, 16][..], &[16, 16], &[16, 16]]);
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
