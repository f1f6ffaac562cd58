//! `Throughput`: as small as it can be and as fast as it gets.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use toma::memory::{MemorySource, Reading, Usage};
use toma::{GlobalCache, NoCache, Throughput, execute};

use crate::world::{BASE, ITEM, NAME, Shows, World, bytes};

/// Time of an attempt that is saturated from `saturation` items on.
fn time(size: usize, saturation: usize) -> Duration {
    Duration::from_millis(size.max(saturation) as u64)
}

#[test]
fn settles_at_the_smallest_size_that_is_fast_enough() {
    for (saturation, expected) in [(1, 1), (60, 64), (64, 64), (70, 128), (300, 512), (512, 512)] {
        let world = World::new(1000, Shows::Everything);
        world.range_with(100_000, 512, Throughput::default(), |_, size| {
            world.attempt_of(size, 0, time(size, saturation))
        });
        assert_eq!(world.last_size(), expected, "saturated from {saturation}");
    }
}

#[test]
fn batches_settle_there_from_call_to_call() {
    for shows in [Shows::Nothing, Shows::Everything] {
        for (saturation, expected) in [(1, 1), (60, 64), (64, 64), (70, 128), (300, 512), (512, 512)] {
            let world = World::new(1000, shows);
            let batch = |_| {
                let body = |size| world.attempt_of(size, 0, time(size, saturation));
                world.batch_with(512, Throughput::default(), body)
            };
            let sizes: Vec<usize> = (0..40).map(batch).collect();
            let found = sizes.iter().position(|&size| size < expected).map_or(10, |below| below + 1);
            assert!(sizes[found..].iter().all(|&size| size == expected), "{sizes:?} for {saturation}");
        }
    }
}

#[test]
fn batches_follow_a_speed_that_changes_for_good() {
    let world = World::new(1000, Shows::Nothing);
    let run = |saturation| {
        let body = |size| world.attempt_of(size, 0, time(size, saturation));
        (0..60).fold(0, |_, _| world.batch_with(512, Throughput::default(), body))
    };
    assert_eq!([run(64), run(256)], [64, 256]);
}

#[test]
fn batches_leave_a_size_that_thrashes() {
    let (memory, clock, cache) =
        (Thrashing::default(), toma::testing::StoppedClock::new(), GlobalCache::new());
    let batch = |_| {
        let with =
            execute::with::<GlobalCache>().cache(&cache).policy(Throughput::within(0.0)).device(&memory);
        with.batch(512, |size| {
            memory.retries.fetch_add(u64::from(size > 200), Relaxed);
            clock.advance(Duration::from_millis(100 + size as u64));
            size
        })
    };
    let sizes: Vec<usize> = (0..20).map(batch).collect();
    assert!(sizes[10..].iter().all(|&size| size <= 200), "{sizes:?}");
}

#[test]
fn more_tolerance_takes_a_smaller_size() {
    let fixed = |size: usize| Duration::from_millis(10 + size as u64);
    let sizes = [0.01, 0.05, 0.2, 0.5].map(|tolerance| {
        let world = World::new(1000, Shows::Nothing);
        world.range_with(400_000, 512, Throughput::within(tolerance), |_, size| {
            world.attempt_of(size, 0, fixed(size))
        });
        world.last_size()
    });
    assert_eq!(sizes, [512, 256, 64, 16]);
}

#[test]
fn what_was_found_is_remembered() {
    let world = World::new(1000, Shows::Nothing);
    let run = || {
        world.range_with(100_000, 512, Throughput::default(), |_, size| {
            world.attempt_of(size, 0, time(size, 64))
        });
        world.attempts.borrow()[0].0
    };
    assert_eq!([run(), run()], [512, 64]);
}

#[test]
fn grows_where_it_starts_too_small() {
    let world = World::new(1000, Shows::Nothing);
    world.cache.seed(NAME, 8);
    world.range_with(100_000, 512, Throughput::default(), |_, size| {
        world.attempt_of(size, 0, time(size, 256))
    });
    assert_eq!((world.attempts.borrow()[0].0, world.last_size()), (8, 256));
}

#[test]
fn returns_to_what_was_faster_when_memory_is_back() {
    let rate = |size: usize| size as f64 / (10.0 + size as f64);
    for (shows, long) in [(Shows::Free, 50), (Shows::Everything, 3)] {
        let world = World::new(300, shows);
        world.range_with(100_000, 2048, Throughput::default(), |number, size| {
            let limit = if (51..51 + long).contains(&number) { 100 } else { 300 };
            world.device.set_budget(bytes(limit));
            world.attempt(size)
        });
        let attempts = world.attempts.borrow();
        let (before, after) = (attempts[49].0, world.last_size());
        assert!(!attempts[50].1, "{shows:?}: it is disturbed");
        assert!(rate(after) >= 0.95 * rate(before), "{after} after {before}: {shows:?}, {long}");
    }
}

#[test]
fn noise_moves_it_by_one_size_at_most() {
    for seed in 0..20_u32 {
        let (world, state) = (World::new(1000, Shows::Nothing), Cell::new(seed));
        world.range_with(200_000, 512, Throughput::default(), |_, size| {
            state.set(state.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
            let noise = 1.0 + 0.05 * f64::from(state.get() >> 16) / 65536.0;
            world.attempt_of(size, 0, time(size, 64).mul_f64(noise))
        });
        assert!([32, 64, 128].contains(&world.last_size()), "{} with seed {seed}", world.last_size());
    }
}

/// Time of an attempt of which `fixed` does not depend on the size.
fn with_overhead(fixed: u64) -> impl Fn(usize) -> Duration {
    move |size| Duration::from_millis(fixed + size as u64)
}

#[test]
fn what_runs_out_of_memory_is_tried_again_only_where_it_would_be_faster() {
    for (fixed, most_failures, sizes) in [(1, 1, 1..=256), (500, 12, 285..=300)] {
        let (world, time) = (World::new(300, Shows::Nothing), with_overhead(fixed));
        let body = |_, size| world.attempt_of(size, BASE + size as u64 * ITEM, time(size));
        world.range_with(100_000, 512, Throughput::default(), body);
        let (failures, size) = (world.failures(), world.last_size());
        assert!(failures <= most_failures && sizes.contains(&size), "{failures} {size} with {fixed}");
    }
}

#[test]
fn follows_a_limit_that_moves_from_call_to_call() {
    for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
        for limit in [150, 600] {
            let (world, time) = (World::new(300, shows), with_overhead(500));
            let body = |size| world.attempt_of(size, BASE + size as u64 * ITEM, time(size));
            let batch = |_| world.batch_with(4096, Throughput::default(), body);
            (0..100).for_each(|number| _ = batch(number));
            world.device.set_budget(bytes(limit));
            let before = world.attempts.borrow().len();
            (0..50).for_each(|number| _ = batch(number));
            let attempts = &world.attempts.borrow()[before..];
            let near = |&&(size, _): &&(usize, bool)| size <= limit && size * 10 >= limit * 9;
            let count = attempts[25..].iter().filter(near).count();
            let others = attempts.len() - 25 - count;
            assert!(others <= 4, "{attempts:?} for {limit}, {shows:?}");
        }
    }
}

#[test]
fn a_passing_shortage_is_got_over_from_call_to_call() {
    for form in ["batch", "range"] {
        let (world, time) = (World::new(1000, Shows::Nothing), with_overhead(500));
        let body = |size| world.attempt_of(size, BASE + size as u64 * ITEM, time(size));
        let call = |_| match form {
            "batch" => _ = world.batch_with(512, Throughput::default(), body),
            _ => _ = world.range_with(512, 512, Throughput::default(), |_, size| body(size)),
        };
        (0..50).for_each(call);
        world.device.set_budget(bytes(4));
        (0..3).for_each(call);
        assert!(world.kept() <= 4, "{} of 4 in {form}", world.kept());
        world.device.set_budget(bytes(1000));
        (0..150).for_each(call);
        assert!(world.kept() >= 256, "{} of 512 in {form}", world.kept());
    }
}

/// A memory whose allocator has to try again above some size.
#[derive(Debug, Default)]
struct Thrashing {
    retries: AtomicU64,
}

impl MemorySource for Thrashing {
    fn name(&self) -> &'static str {
        "thrashing"
    }

    fn read(&self) -> io::Result<Reading> {
        Ok(Reading::new(1 << 30, 1 << 30))
    }

    fn usage(&self) -> Option<Usage> {
        Some(Usage::new(0, 0).retried(self.retries.load(Relaxed)))
    }
}

/// The sizes of a run whose attempts above `most` items, all or every second one, thrash.
fn sizes(most: usize, every: usize) -> Vec<usize> {
    let (memory, clock, count) = (Thrashing::default(), toma::testing::StoppedClock::new(), Cell::new(0));
    let mut sizes = Vec::new();
    let with = execute::with::<NoCache>().policy(Throughput::within(0.0)).device(&memory);
    with.range(0..20_000, 512, |start, end| {
        count.set(count.get() + 1);
        memory.retries.fetch_add(u64::from(end - start > most && count.get() % every == 0), Relaxed);
        // Larger is always faster, were it not for the thrashing.
        clock.advance(Duration::from_millis(100 + (end - start) as u64));
        sizes.push(end - start);
    });
    sizes
}

#[test]
fn thrashing_in_two_attempts_in_a_row_is_too_large() {
    assert!(sizes(512, 1)[5..20].iter().all(|&size| size == 512));
    let sizes_below = sizes(200, 1);
    assert!(sizes_below[5..].iter().filter(|&&size| size > 200).count() <= 12, "{sizes_below:?}");
    assert!(sizes_below[32..].iter().all(|&size| size <= 200), "{sizes_below:?}");
    assert!(sizes(200, 2)[5..20].iter().all(|&size| size == 512), "once in a while is nothing");
}
