//! Memory sources that panic, fail or report wrong figures, and undo code that panics.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::memory::{MemorySource, Reading};
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::child;
use crate::kit::{Memory, fits};

/// Runs a range of 16 items of which 4 fit at a time.
fn range(cache: &dyn SizeCache, device: &Memory, done: &mut Vec<usize>) -> Result<(), OutOfMemory> {
    let with = execute::with::<NoCache>().cache(cache).device(device);
    with.range(0..16, 16, |start, end| fits(end - start, 4).map(|()| done.extend(start..end)))
}

fn completes(cache: &dyn SizeCache, device: &Memory) {
    let mut done = Vec::new();
    range(cache, device, &mut done).unwrap();
    assert_eq!(done, (0..16).collect::<Vec<_>>());
}

#[test]
fn a_memory_that_cannot_be_read_stops_nothing() {
    let memory = Memory::new(1, 2);
    memory.cannot_be_read();
    for cache in [&GlobalCache::new() as &dyn SizeCache, &StacktraceMemoryCache::new(), &NoCache] {
        completes(cache, &memory);
        completes(cache, &memory);
    }
    assert!(memory.readings() > 0);
}

#[test]
fn a_memory_that_lies_stops_nothing() {
    let lies = [(u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0), (0, u64::MAX)];
    let cache = StacktraceMemoryCache::new();
    for (free, total) in lies {
        completes(&cache, &Memory::new(free, total));
    }
    let transient = |(free, total)| {
        let mut attempts = 0;
        let memory = Memory::new(free, total);
        let _ = execute::with::<NoCache>().device(&memory).batch(16, |size| {
            attempts += 1;
            if size > 4 { Err(io::Error::other("CUBLAS_STATUS_INTERNAL_ERROR")) } else { Ok(()) }
        });
        attempts
    };
    assert_eq!(lies.map(transient), [2, 2, 2, 2 + 2 + 1], "shrunk only where memory is low");
}

#[test]
fn a_memory_that_panics_ends_the_call_with_its_panic() {
    let memory = Memory { before_reading: || panic!("driver gone"), ..Memory::new(1, 2) };
    for cache in [&GlobalCache::new() as &dyn SizeCache, &StacktraceMemoryCache::new(), &NoCache] {
        let mut done = Vec::new();
        let panic = catch_unwind(AssertUnwindSafe(|| range(cache, &memory, &mut done))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"driver gone"));
        assert_eq!(done, [0; 0], "nothing is skipped");
        completes(cache, &Memory::new(1, 2));
    }
}

#[test]
fn a_memory_that_panics_while_a_start_is_chosen_harms_no_other_call() {
    let cache = StacktraceMemoryCache::new();
    let memory = |free| Memory::named("driver", free, 9 << 30);
    let [high, low] = [8 << 30, 1].map(memory);
    let panics = Memory { before_reading: || panic!("driver gone"), ..memory(1) };
    let call = |memory: &Memory, limit| {
        let with = execute::with::<NoCache>().cache(&cache).device(memory);
        with.batch(16, |size| fits(size, limit).map(|()| size)).ok()
    };
    // The first two calls learn two levels of free memory; from then on memory is read before the first attempt.
    let calls = [(&high, 8), (&low, 4), (&panics, 16), (&panics, 16), (&low, 16), (&high, 16)];
    let ends = calls.map(|(memory, limit)| catch_unwind(AssertUnwindSafe(|| call(memory, limit))).ok());
    assert_eq!(ends, [Some(Some(8)), Some(Some(4)), None, None, Some(Some(4)), Some(Some(8))]);
    assert_eq!(cache.entries().len(), 2);
    completes(&cache, &Memory::new(1, 2));
}

/// A size that grew without a failure is remembered together with the free bytes at the end of the call.
#[test]
fn a_memory_that_panics_when_all_is_done_does_not_take_the_result() {
    let test = "adversity::sources::a_memory_that_panics_when_all_is_done_does_not_take_the_result";
    if let Some(ended) = child::run(test, &[]) {
        let message = "12 is not remembered, because of a panic meanwhile";
        assert!(ended.passed().iter().any(|line| line.ends_with(message)));
        return;
    }
    // All calls see one memory, because it has the same name.
    let memory = || Memory::named("driver", 1, 2);
    let sizes = GlobalCache::new();
    let call = |memory: &Memory| {
        let with = execute::with::<NoCache>().cache(&sizes).device(memory).policy(toma::Bisect::default());
        with.batch(16, |size| if size > 12 { Err(OutOfMemory::new(None)) } else { Ok(size) })
    };
    assert_eq!(call(&memory()), Ok(8));
    let panics = Memory { before_reading: || panic!("driver gone"), ..memory() };
    assert_eq!(call(&panics), Ok(12), "half way to the size that failed");
    assert!(panics.readings() > 0);
    assert_eq!(call(&memory()), Ok(12));
}

#[test]
fn a_release_that_panics_ends_the_call_with_its_panic() {
    let memory = Memory { before_releasing: || panic!("cannot release"), ..Memory::new(1, 2) };
    let panic = catch_unwind(AssertUnwindSafe(|| range(&NoCache, &memory, &mut Vec::new()))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"cannot release"));
    assert_eq!(memory.releases(), 1);
}

#[test]
fn memory_is_read_once_for_each_failure_and_released_once_for_each_retry() {
    let memory = Memory::new(1, 2);
    completes(&StacktraceMemoryCache::new(), &memory);
    assert_eq!((memory.readings(), memory.releases()), (2, 2));
    execute::with::<NoCache>().device(&memory).range(0..100, 10, |_, _| ());
    assert_eq!(memory.readings(), 2, "success reads nothing");
}

/// A memory whose reading runs loops itself, on the same memory.
#[derive(Debug)]
struct Busy(StacktraceMemoryCache);

impl MemorySource for Busy {
    fn name(&self) -> &'static str {
        // Tests run side by side, and no two of them share a memory.
        thread_local!(static NAME: &'static str = format!("busy {:?}", std::thread::current().id()).leak());
        NAME.with(|name| *name)
    }

    fn read(&self) -> io::Result<Reading> {
        completes(&self.0, &Memory::new(1, 2));
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

/// A failure of undo code is not a failure of the body: there is no smaller size to undo.
#[test]
fn an_undo_that_runs_out_of_memory_is_not_tried_again() {
    let (sizes, mut undone) = (GlobalCache::new(), 0);
    let call = AssertUnwindSafe(|| {
        let undo = |_| {
            undone += 1;
            std::panic::panic_any(OutOfMemory::new(None));
        };
        let with = execute::with::<NoCache>().cache(&sizes).before_retry(undo);
        with.range(0..16, 16, |_, _| Err(OutOfMemory::new(None)))
    });
    let panic = catch_unwind(call).unwrap_err();
    assert!(panic.is::<OutOfMemory>());
    assert_eq!(undone, 1);
    assert!(sizes.entries().is_empty());
}
