//! First sizes that are predicted from measured memory.

use std::time::Duration;

use toma::testing::FakeOutOfMemory;
use toma::{Adaptive, GlobalCache, execute, report};

use crate::adaptive::world::{BASE, ITEM, Shows, World, bytes};

const TIME: Duration = Duration::from_millis(100);

#[test]
fn a_cold_run_on_an_unknown_limit_fails_once_at_most() {
    for limit in [40, 100, 300, 1000, 3000] {
        for initial in [512, 4096] {
            for items in [4096, 100_000] {
                let world = World::new(limit, Shows::Everything);
                world.range(items, initial, Adaptive::default());
                assert!(world.failures() <= 1, "{:?} for {limit}", world.attempts.borrow());
            }
        }
    }
}

#[test]
fn noise_costs_little() {
    for seed in 0..20_u64 {
        let world = World::new(300, Shows::Everything);
        let mut state = seed;
        world.range_with(100_000, 4096, Adaptive::default(), |_, size| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Up to a tenth more or less, and sometimes half as much again.
            let noise = 0.9 + 0.2 * ((state >> 40) % 1000) as f64 / 1000.0;
            let noise = if (state >> 33).is_multiple_of(50) { noise * 1.5 } else { noise };
            world.attempt_of(size, scaled(BASE + size as u64 * ITEM, noise), TIME)
        });
        let attempts = world.attempts.borrow().len();
        assert!(world.failures() * 10 <= attempts, "{} of {attempts} with seed {seed}", world.failures());
        assert!(attempts <= 2 * 100_000 / 300, "{attempts} with seed {seed}");
    }
}

/// A convolution of one image runs another kernel, so a line through a single item does not describe larger sizes.
#[test]
fn a_single_item_predicts_little_of_more() {
    for single in [300, 500, 700, 1500, 2000] {
        for (limit, base) in (3..12).flat_map(|limit| [0, 1, 3, 10].map(|base| (limit, base))) {
            let world = World::new(0, Shows::Everything);
            let needs = |size: usize| base * ITEM + if size == 1 { single } else { size as u64 * ITEM };
            world.device.set_budget(needs(limit) + ITEM / 2);
            world
                .range_with(24, 24, Adaptive::default(), |_, size| world.attempt_of(size, needs(size), TIME));
            let attempts = world.attempts.borrow();
            assert!(world.failures() <= 1, "{attempts:?} with {single}, {base} for {limit}");
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn scaled(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}

#[test]
fn memory_that_does_not_depend_on_the_size_is_no_limit() {
    let world = World::new(300, Shows::Everything);
    world.range_with(100_000, 4096, Adaptive::default(), |_, size| world.attempt_of(size, 100 * ITEM, TIME));
    assert_eq!((world.failures(), world.last_size()), (0, 4096));
}

#[test]
fn memory_that_grows_faster_than_the_size_is_followed() {
    let world = World::new(0, Shows::Everything);
    world.device.set_budget(300 * 300 * ITEM);
    world.range_with(200_000, 4096, Adaptive::default(), |_, size| {
        world.attempt_of(size, (size * size) as u64 * ITEM, TIME)
    });
    assert!(world.failures() <= 4, "{:?}", &world.attempts.borrow()[..20]);
    assert!((270..=300).contains(&world.last_size()), "{}", world.last_size());
}

#[test]
fn less_memory_is_seen_before_it_fails() {
    let world = World::new(300, Shows::Everything);
    world.range(60_000, 4096, Adaptive::default());
    let neighbor = world.device.alloc(150 * ITEM).unwrap();
    world.range(60_000, 4096, Adaptive::default());
    assert_eq!(world.failures(), 0);
    assert!((140..=150).contains(&world.last_size()), "{}", world.last_size());
    drop(neighbor);
    world.range(60_000, 4096, Adaptive::default());
    assert_eq!(world.failures(), 0);
    assert!(world.last_size() >= 285, "{}", world.last_size());
}

#[test]
fn loops_inside_each_other_measure_their_own() {
    let world = World::new(300, Shows::Everything);
    let inner = World::new(300, Shows::Everything);
    world.range_with(60_000, 4096, Adaptive::default(), |_, size| {
        let outer = world.device.alloc(BASE + size as u64 * ITEM)?;
        drop(outer);
        // Needs far less on the same device, after the peak of the outer attempt.
        let with = execute::with::<GlobalCache>().cache(&inner.cache).policy(Adaptive::default());
        with.device(&world.source)
            .range(0..40, 10, |start, end| world.device.alloc((end - start) as u64).map(drop))?;
        world.attempt_of(size, 0, TIME)
    });
    let report = report::last().unwrap();
    assert!(report.out_of_memory <= 1, "{report}");
    assert!((285..=300).contains(&world.last_size()), "{}", world.last_size());
}

#[test]
fn a_size_that_cannot_fit_is_reported_early_and_the_original_error_comes_out() {
    let world = World::new(300, Shows::Everything);
    world.range(60_000, 4096, Adaptive::default());
    world.device.set_budget(bytes(0) - BASE / 2);
    world.received.0.lock().unwrap().clear();
    let result = world.call(60_000, 4096, Adaptive::default(), |start, end| world.attempt(end - start));
    assert_eq!(result.unwrap_err().requested_bytes, BASE + ITEM);
    let received = world.received.0.lock().unwrap();
    assert_eq!(received[..2], ["1 does not fit", "0 to 1"]);
    let report = report::last().unwrap().to_string();
    assert!(report.contains("does not fit at size 1: needs 20.5 KiB, 10.3 KiB free\n"), "{report}");
}

#[test]
fn giving_up_reports_the_lacking_bytes() {
    let world = World::new(300, Shows::Everything);
    world.device.set_budget(1024);
    let with =
        execute::with::<GlobalCache>().cache(&world.cache).policy(Adaptive::default()).device(&world.source);
    let result = with.range(0..8, 8, |start, end| -> Result<(), FakeOutOfMemory> {
        let _weights = world.device.alloc(512)?;
        world.device.alloc((end - start) as u64 * 2048).map(drop)
    });
    assert_eq!(result.unwrap_err().requested_bytes, 2048);
    let shown = report::last().unwrap().to_string();
    assert!(shown.contains("does not fit at size 1: needs 2.5 KiB, 1.0 KiB free\n"), "{shown}");
}
