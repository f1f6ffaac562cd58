//! `Throughput` finds the smallest size with the highest throughput.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use toma::memory::{MemorySource, Reading, Usage};
use toma::policy::Policy;
use toma::testing::StoppedClock;
use toma::{Adaptive, GlobalCache, Throughput, execute};

use crate::adaptive::world::{BASE, ITEM, NAME, Shows, World, bytes};

/// Returns the time of an attempt that is saturated from `saturation` items on.
fn time(size: usize, saturation: usize) -> Duration {
    Duration::from_millis(size.max(saturation) as u64)
}

#[test]
fn settles_at_the_smallest_size_that_is_fast_enough() {
    for (saturation, expected) in [(1, 1), (60, 64), (64, 64), (70, 128), (300, 512), (512, 512)] {
        let world = World::new(1000, Shows::Everything);
        let body = |world: &World, size| world.attempt_of(size, 0, time(size, saturation));
        world.range_with(100_000, 512, Throughput::default(), |_, size| body(&world, size));
        assert_eq!(world.last_size(), expected, "saturated from {saturation}");
        for shows in [Shows::Nothing, Shows::Everything] {
            let world = World::new(1000, shows);
            let batch = |_| world.batch_with(512, Throughput::default(), |size| body(&world, size));
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
fn starts_from_what_is_remembered() {
    let world = World::new(1000, Shows::Nothing);
    let run = |saturation| {
        let body = |_, size| world.attempt_of(size, 0, time(size, saturation));
        world.range_with(100_000, 512, Throughput::default(), body);
        let first = world.attempts.borrow()[0].0;
        (first, world.last_size())
    };
    assert_eq!([run(64), run(64)], [(512, 64), (64, 64)]);
    world.cache.clear();
    world.cache.seed(NAME, 8);
    assert_eq!(run(256), (8, 256), "it grows where it starts too small");
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

/// Returns a time per attempt of which `fixed` does not depend on the size.
fn with_overhead(fixed: u64) -> impl Fn(usize) -> Duration {
    move |size| Duration::from_millis(fixed + size as u64)
}

#[test]
fn a_size_that_ran_out_of_memory_is_tried_again_only_where_it_would_be_faster() {
    for (fixed, most_failures, sizes) in [(1, 1, 1..=256), (500, 12, 285..=300)] {
        let (world, time) = (World::new(300, Shows::Nothing), with_overhead(fixed));
        let body = |_, size| world.attempt_of(size, BASE + size as u64 * ITEM, time(size));
        world.range_with(100_000, 512, Throughput::default(), body);
        let (failures, size) = (world.failures(), world.last_size());
        assert!(failures <= most_failures && sizes.contains(&size), "{failures} {size} with {fixed}");
    }
}

#[test]
fn looks_for_the_limit_as_configured() {
    let run = |shows, adaptive| {
        let (world, time) = (World::new(300, shows), with_overhead(500));
        let body = |_, size| world.attempt_of(size, BASE + size as u64 * ITEM, time(size));
        world.range_with(100_000, 512, Throughput::over(adaptive), body);
        (world.last_size(), world.failures())
    };
    let sizes = [0.01, 0.5].map(|headroom| run(Shows::Everything, Adaptive::default().headroom(headroom)).0);
    assert!(sizes[0] >= 285 && sizes[1] <= 160, "{sizes:?} of 300");
    let failures = [0.02, 0.0].map(|waste| run(Shows::Nothing, Adaptive::default().waste(waste)).1);
    assert!(failures[1] < failures[0], "{failures:?}");
}

/// A memory whose allocator has to retry above some size.
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

/// Returns the sizes of 20 batches or of a range, where all attempts above `most` items, or every second one of them,
/// thrash.
fn sizes(policy: impl Policy + Copy, is_batch: bool, most: usize, every: usize) -> Vec<usize> {
    let (memory, clock, cache) = (Thrashing::default(), StoppedClock::new(), GlobalCache::new());
    let sizes = RefCell::new(Vec::new());
    let body = |size: usize| {
        let count = sizes.borrow().len() + 1;
        memory.retries.fetch_add(u64::from(size > most && count % every == 0), Relaxed);
        // Larger sizes would always be faster without the thrashing.
        clock.advance(Duration::from_millis(100 + size as u64));
        sizes.borrow_mut().push(size);
    };
    let with = || {
        let with = execute::with::<GlobalCache>().cache(&cache).name(NAME);
        with.policy(policy).device(&memory)
    };
    if is_batch {
        (0..20).for_each(|_| with().batch(512, body));
    } else {
        with().range(0..20_000, 512, |start, end| body(end - start));
    }
    sizes.into_inner()
}

#[test]
fn thrashing_in_two_attempts_in_a_row_is_too_large() {
    let sizes = |is_batch, most, every| sizes(Throughput::within(0.0), is_batch, most, every);
    assert!(sizes(false, 512, 1)[5..20].iter().all(|&size| size == 512));
    let below = sizes(false, 200, 1);
    assert!(below[5..].iter().filter(|&&size| size > 200).count() <= 12, "{below:?}");
    assert!(below[32..].iter().all(|&size| size <= 200), "{below:?}");
    assert!(sizes(false, 200, 2)[5..20].iter().all(|&size| size == 512), "once in a while is nothing");
    let batches = sizes(true, 200, 1);
    assert!(batches[10..].iter().all(|&size| size <= 200), "{batches:?}");
}

#[test]
fn adaptive_leaves_sizes_that_thrash() {
    let range = sizes(Adaptive::default(), false, 200, 1);
    assert!(range[48..range.len() - 1].iter().all(|size| (190..=200).contains(size)), "{range:?}");
    let batches = sizes(Adaptive::default(), true, 200, 1);
    assert!(batches[10..].iter().all(|&size| size <= 200), "{batches:?}");
}
