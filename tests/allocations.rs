//! Tests that a warm call that succeeds allocates nothing, and that a call with failures allocates little.

#[path = "common/executor.rs"]
mod executor;

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use allocation_counter::measure;
use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::device::Ladder;
use toma::memory::Host;
use toma::{Bisect, GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::executor::block_on;

/// Runs one test at a time: sizes learned in one would make calls of another look into the shared caches again.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of allocations of a warm call. The first call of a thread makes its memo and its report, and the
/// third call is warm. All three share one call site, so the default cache sees them as one.
fn allocates(mut call: impl FnMut()) -> u64 {
    let counts = [(); 3].map(|()| measure(&mut call).count_total);
    counts[2]
}

/// Learns a size at another call site, because a cache that has learned nothing is not even asked.
fn learn_something(cache: &dyn SizeCache) {
    let form = execute::with::<NoCache>().cache(cache).name("elsewhere");
    let result = form.batch(8, |size| if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) });
    assert!(result.is_ok());
}

macro_rules! every_cache {
    ($($name:ident: $cache:ty;)*) => {$(
        mod $name {
            use super::*;

            type Cache = $cache;

            #[test]
            fn inline_forms() {
                let _alone = alone();
                learn_something(Cache::shared());
                let form = || execute::with::<Cache>();
                assert_eq!(allocates(|| _ = black_box(form().batch(64, |size| size))), 0);
                assert_eq!(allocates(|| form().range(0..1000, 1, |start, end| _ = black_box(end - start))), 0);
                let mut data = [0_u8; 1000];
                assert_eq!(allocates(|| form().chunked(&mut data[..], 1, |chunk, _, _| chunk.fill(1))), 0);
                let sum = || form().fold(0..1000, 1, 0, |sum: &usize, start, end| sum + end - start);
                assert_eq!(allocates(|| assert_eq!(sum(), 1000)), 0);
                let items = || form().iter(0..1000, 1, |start, end| end - start).sum::<usize>();
                assert_eq!(allocates(|| assert_eq!(black_box(items()), 1000)), 0);
            }

            #[test]
            fn attributes() {
                #[toma::batch(initial = 64, cache = Cache)]
                fn batch(size: usize) -> Result<usize, OutOfMemory> {
                    Ok(size)
                }

                #[toma::range(initial = 1, cache = Cache)]
                fn range(start: usize, end: usize) {
                    black_box(end - start);
                }

                #[toma::chunked(initial = 1, cache = Cache)]
                fn chunked(data: &mut [u8], start: i64, end: i64) {
                    data.fill(u8::try_from(end - start).unwrap());
                }

                let _alone = alone();
                learn_something(Cache::shared());
                assert_eq!(allocates(|| assert_eq!(batch(), Ok(64))), 0);
                assert_eq!(allocates(|| range(0, 1000)), 0);
                assert_eq!(allocates(|| chunked(&mut [0; 1000])), 0);
            }

            #[test]
            fn with_every_option() {
                let _alone = alone();
                learn_something(Cache::shared());
                let call = || {
                    let ladder = Ladder::default().release_and_retry(true).fallback(true);
                    let form = execute::with::<Cache>().key("a key").device(Host::shared()).ladder(ladder).name("named");
                    let form = form.min(2).max(64).multiple_of(2).max_attempts(9).policy(Bisect::default());
                    form.deadline(Duration::from_secs(60)).before_retry(|_| ()).range(0..100, 64, |start, end| {
                        black_box(end - start);
                    });
                };
                assert_eq!(allocates(call), 0);
            }

            #[test]
            fn with_a_device_in_one_of_it() {
                #[toma::range(initial = 1, cache = Cache, device = Host::shared())]
                async fn range(start: usize, end: usize) {
                    black_box(end - start);
                }

                let _alone = alone();
                learn_something(Cache::shared());
                let form = || execute::with::<Cache>().device(Host::shared());
                let call = || {
                    form().range(0..10, 1, |start, end| {
                        assert_eq!(form().iter(start..end, 1, |start, end| end - start).count(), 1);
                        block_on(range(0, 10));
                    });
                };
                assert_eq!(allocates(call), 0);
            }
        }
    )*};
}

every_cache! {
    no_cache: NoCache;
    global_cache: GlobalCache;
    stacktrace_memory_cache: StacktraceMemoryCache;
    default_cache: toma::DefaultCache;
}

#[test]
fn map_allocates_its_result_only() {
    let _alone = alone();
    let map = || execute::with::<GlobalCache>().map(0..1000, 1, |start, end| end - start);
    let grown = measure(|| {
        let mut values = Vec::new();
        (0..1000).for_each(|i| values.push(black_box(i)));
        black_box(values);
    });
    assert_eq!(allocates(|| _ = black_box(map())), grown.count_total);
}

#[test]
fn costs_allocate_their_sums_and_the_state_of_packing() {
    let _alone = alone();
    let form = || execute::with::<GlobalCache>().by_cost(|i| i % 7).left_out(|_| ());
    let mut data = [0_u8; 1000];
    assert_eq!(allocates(|| form().range(0..1000, 10, |start, end| _ = black_box(end - start))), 2);
    assert_eq!(allocates(|| form().chunked(&mut data[..], 10, |chunk, _, _| chunk.fill(1))), 2);
    assert_eq!(
        allocates(|| assert_eq!(form().iter(0..1000, 10, |start, end| end - start).sum::<usize>(), 1000)),
        2
    );
}

#[test]
fn a_stream_allocates_its_driver_and_its_slot() {
    let _alone = alone();
    let call = || {
        let mut rows = execute::with::<GlobalCache>().stream(0..1000, 1, async |start, end| end - start);
        let mut sum = 0;
        while let Some(row) = block_on(rows.next()) {
            sum += row;
        }
        assert_eq!(sum, 1000);
    };
    assert_eq!(allocates(call), 2);
}

#[test]
fn a_failing_call_allocates_little_and_keeps_nothing() {
    // The reserve is shared by all threads: bytes that one thread returns are taken by another.
    let _alone = alone();
    let cache = GlobalCache::new();
    let call = || {
        let form = execute::with::<NoCache>().cache(&cache);
        let done =
            form.batch(64, |size| if size > 4 { Err(OutOfMemory::new(Some(1 << 20))) } else { Ok(()) });
        assert!(done.is_ok());
    };
    // The first calls allocate the table of the cache and the memo and report of the thread.
    call();
    call();
    let mut left = 0;
    for _ in 0..1000 {
        cache.clear();
        let failing = measure(call);
        assert!(failing.bytes_max < 16 << 10, "{failing:?}");
        left += failing.bytes_current;
    }
    // Of a thousand calls only the last entry remains.
    assert!(left < 1000 * 1024, "{left} bytes more after all calls");
}

#[test]
fn marks_without_a_receiver() {
    #[toma::profile]
    fn marked(values: &[u32]) -> u32 {
        let mut sum = 0;
        for value in values {
            sum += [*value].iter().map(|value| value + 1).sum::<u32>();
        }
        sum
    }

    #[toma::profile]
    async fn task(x: u32) -> u32 {
        let block = async { x + 1 };
        block.await
    }

    assert_eq!(allocates(|| assert_eq!(marked(&[1, 2]), 5)), 0);
    assert_eq!(allocates(|| assert_eq!(block_on(task(1)), 2)), 0);
}
