//! Memory sources that panic, fail, lie or take their time, and undo code that panics.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::memory::{MemorySource, Reading};
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::child;

/// A memory that does what it is told, and counts.
#[derive(Debug, Default)]
struct Odd {
    read: Option<fn() -> io::Result<Reading>>,
    release: Option<fn()>,
    readings: AtomicUsize,
    releases: AtomicUsize,
}

impl MemorySource for Odd {
    fn name(&self) -> &'static str {
        // Tests run side by side, and none shares its memory with another.
        thread_local!(static NAME: &'static str = format!("odd {:?}", std::thread::current().id()).leak());
        NAME.with(|name| *name)
    }

    fn read(&self) -> io::Result<Reading> {
        self.readings.fetch_add(1, Relaxed);
        self.read.map_or_else(|| Ok(Reading::new(1, 2)), |read| read())
    }

    fn release_cached_memory(&self) {
        self.releases.fetch_add(1, Relaxed);
        if let Some(release) = self.release {
            release();
        }
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

/// A range of 16 items of which 4 fit at a time.
fn range(cache: &dyn SizeCache, device: &Odd, done: &mut Vec<usize>) -> Result<(), OutOfMemory> {
    let with = execute::with::<NoCache>().cache(cache).device(device);
    with.range(0..16, 16, |start, end| {
        if end - start > 4 {
            return Err(OutOfMemory::new(None));
        }
        done.extend(start..end);
        Ok(())
    })
}

fn completes(cache: &dyn SizeCache, device: &Odd) {
    let mut done = Vec::new();
    range(cache, device, &mut done).unwrap();
    assert_eq!(done, (0..16).collect::<Vec<_>>());
}

#[test]
fn a_memory_that_cannot_be_read_stops_nothing() {
    let odd = Odd { read: Some(|| Err(io::Error::other("gone"))), ..Odd::default() };
    for cache in [&GlobalCache::new() as &dyn SizeCache, &StacktraceMemoryCache::new(), &NoCache] {
        completes(cache, &odd);
        completes(cache, &odd);
    }
    assert!(odd.readings.load(Relaxed) > 0);
}

#[test]
fn a_memory_that_lies_stops_nothing() {
    let lies: [fn() -> io::Result<Reading>; 4] = [
        || Ok(Reading::new(u64::MAX, 0)),
        || Ok(Reading::new(u64::MAX, u64::MAX)),
        || Ok(Reading::new(0, 0)),
        || Ok(Reading::new(0, u64::MAX)),
    ];
    let cache = StacktraceMemoryCache::new();
    for read in lies {
        completes(&cache, &Odd { read: Some(read), ..Odd::default() });
    }
    let transient = |odd: &Odd| {
        let mut attempts = 0;
        let with = execute::with::<NoCache>().device(odd);
        let _ = with.batch(16, |size| {
            attempts += 1;
            if size > 4 { Err(io::Error::other("CUBLAS_STATUS_INTERNAL_ERROR")) } else { Ok(()) }
        });
        attempts
    };
    let attempts = lies.map(|read| transient(&Odd { read: Some(read), ..Odd::default() }));
    assert_eq!(attempts, [2, 2, 2, 2 + 2 + 1], "shrunk only where memory is low");
}

#[test]
fn a_memory_that_panics_ends_the_call_with_its_panic() {
    let odd = Odd { read: Some(|| panic!("driver gone")), ..Odd::default() };
    for cache in [&GlobalCache::new() as &dyn SizeCache, &StacktraceMemoryCache::new(), &NoCache] {
        let mut done = Vec::new();
        let panic = catch_unwind(AssertUnwindSafe(|| range(cache, &odd, &mut done))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"driver gone"));
        assert_eq!(done, [0; 0], "nothing is skipped");
        completes(cache, &Odd::default());
    }
}

#[test]
fn a_memory_that_panics_while_a_start_is_chosen_harms_no_other_call() {
    let cache = StacktraceMemoryCache::new();
    let call = |read: fn() -> io::Result<Reading>, limit: usize| {
        let odd = Odd { read: Some(read), ..Odd::default() };
        let with = execute::with::<NoCache>().cache(&cache).device(&odd);
        with.batch(16, |size| if size > limit { Err(OutOfMemory::new(None)) } else { Ok(size) }).ok()
    };
    let high = || Ok(Reading::new(8 << 30, 9 << 30));
    let low = || Ok(Reading::new(1, 9 << 30));
    let panics = || panic!("driver gone");
    // Two levels are learned, and then memory is read before the first attempt.
    let readings: [fn() -> io::Result<Reading>; 6] = [high, low, panics, panics, low, high];
    let calls = readings.into_iter().zip([8, 4, 16, 16, 16, 16]);
    let ends: Vec<_> =
        calls.map(|(read, limit)| catch_unwind(AssertUnwindSafe(|| call(read, limit))).ok()).collect();
    assert_eq!(ends, [Some(Some(8)), Some(Some(4)), None, None, Some(Some(4)), Some(Some(8))]);
    assert_eq!(cache.entries().len(), 2);
    completes(&cache, &Odd::default());
}

/// What grew without a failure is remembered with what is free when the call is over.
#[test]
fn a_memory_that_panics_when_all_is_done_does_not_take_the_result() {
    let test = "sources::a_memory_that_panics_when_all_is_done_does_not_take_the_result";
    if let Some(ended) = child::run(test, &[]) {
        let said = "12 is not remembered, because of a panic meanwhile";
        assert!(ended.passed().iter().any(|line| line.ends_with(said)));
        return;
    }
    let sizes = GlobalCache::new();
    let call = |odd: &Odd| {
        let with = execute::with::<NoCache>().cache(&sizes).device(odd).policy(toma::Bisect::default());
        with.batch(16, |size| if size > 12 { Err(OutOfMemory::new(None)) } else { Ok(size) })
    };
    assert_eq!(call(&Odd::default()), Ok(8));
    let odd = Odd { read: Some(|| panic!("driver gone")), ..Odd::default() };
    assert_eq!(call(&odd), Ok(12), "half way to the size that failed");
    assert!(odd.readings.load(Relaxed) > 0);
    assert_eq!(call(&Odd::default()), Ok(12));
}

#[test]
fn a_release_that_panics_ends_the_call_with_its_panic() {
    let odd = Odd { release: Some(|| panic!("cannot release")), ..Odd::default() };
    let panic = catch_unwind(AssertUnwindSafe(|| range(&NoCache, &odd, &mut Vec::new()))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"cannot release"));
    assert_eq!(odd.releases.load(Relaxed), 1);
}

#[test]
fn a_slow_memory_is_read_once_for_each_failure_and_released_once_for_each_retry() {
    let slow = || {
        std::thread::sleep(Duration::from_millis(5));
        Ok(Reading::new(1, 2))
    };
    let odd = Odd { read: Some(slow), ..Odd::default() };
    let cache = StacktraceMemoryCache::new();
    let calls = || completes(&cache, &odd);
    calls();
    assert_eq!((odd.readings.load(Relaxed), odd.releases.load(Relaxed)), (2, 2));
    execute::with::<NoCache>().device(&odd).range(0..100, 10, |_, _| ());
    assert_eq!(odd.readings.load(Relaxed), 2, "success reads nothing");
}

/// A memory whose reading runs loops itself, with this very memory.
#[derive(Debug)]
struct Busy(StacktraceMemoryCache);

impl MemorySource for Busy {
    fn name(&self) -> &'static str {
        // Tests run side by side, and none shares its memory with another.
        thread_local!(static NAME: &'static str = format!("busy {:?}", std::thread::current().id()).leak());
        NAME.with(|name| *name)
    }

    fn read(&self) -> io::Result<Reading> {
        completes(&self.0, &Odd::default());
        execute::with::<NoCache>().cache(&self.0).device(self).range(0..4, 4, |_, _| ());
        Ok(Reading::new(1 << 40, 1 << 41))
    }
}

#[test]
fn a_memory_may_run_loops_itself() {
    let busy = Busy(StacktraceMemoryCache::new());
    for limit in [8, 4, 2] {
        let with = execute::with::<NoCache>().cache(&busy.0).device(&busy);
        let fails = |size| if size > limit { Err(OutOfMemory::new(None)) } else { Ok(size) };
        assert_eq!(with.batch(16, fails), Ok(limit));
    }
}

#[test]
fn an_undo_that_panics_ends_the_call_with_its_panic() {
    let sizes = GlobalCache::new();
    let mut attempts = 0;
    let call = AssertUnwindSafe(|| {
        let with = execute::with::<NoCache>().cache(&sizes).before_retry(|_| panic!("cannot undo"));
        with.range(0..16, 16, |_, _| {
            attempts += 1;
            Err(OutOfMemory::new(None))
        })
    });
    let panic = catch_unwind(call).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"cannot undo"));
    assert_eq!(attempts, 1);
    assert!(sizes.entries().is_empty());
}

/// An undo that runs out of memory is not the body: there is nothing smaller to undo.
#[test]
fn an_undo_that_runs_out_of_memory_is_not_tried_again() {
    let mut undone = 0;
    let call = AssertUnwindSafe(|| {
        let undo = |_| {
            undone += 1;
            std::panic::panic_any(OutOfMemory::new(None));
        };
        execute::with::<NoCache>().before_retry(undo).range(0..16, 16, |_, _| Err(OutOfMemory::new(None)))
    });
    let panic = catch_unwind(call).unwrap_err();
    assert!(panic.is::<OutOfMemory>());
    assert_eq!(undone, 1);
}
