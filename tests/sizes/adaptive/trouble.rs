//! All policies on memory that violates their assumptions: limits that are not monotone, limits that fall, and failures
//! without a reason.

use std::time::Duration;

use toma::policy::Policy;
use toma::testing::FakeOutOfMemory;
use toma::{Adaptive, Bisect, Decay, Halve, Throughput};

use crate::adaptive::world::{BASE, ITEM, Shows, World, bytes};

const TIME: Duration = Duration::from_millis(100);

fn policies() -> [(&'static str, Box<dyn Policy>); 5] {
    [
        ("Halve", Box::new(Halve)),
        ("Decay", Box::new(Decay::new(0.9))),
        ("Bisect", Box::new(Bisect::default())),
        ("Adaptive", Box::new(Adaptive::default())),
        ("Throughput", Box::new(Throughput::default())),
    ]
}

/// Runs a check with each policy and each kind of memory source.
fn everywhere(check: impl Fn(&str, &dyn Policy, Shows)) {
    for (name, policy) in policies() {
        for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
            check(name, &*policy, shows);
        }
    }
}

#[test]
fn sizes_that_fail_below_sizes_that_run() {
    everywhere(|name, policy, shows| {
        let world = World::new(1000, shows);
        // For example a convolution that uses another algorithm at these sizes.
        let needs = |size: usize| if size > 100 || (12..=24).contains(&size) { u64::MAX } else { 1 };
        world.range_with(50_000, 512, policy, |_, size| world.attempt_of(size, needs(size), TIME));
        let failures = world.failures();
        assert!(failures <= 60, "{name} {shows:?}: {failures} failures");
        let called = |size| world.attempt_of(size, needs(size), TIME);
        let batches: Vec<usize> = (0..300).map(|_| world.batch_with(512, policy, called)).collect();
        assert!(batches.iter().all(|&size| needs(size) == 1));
    });
}

#[test]
fn a_limit_that_falls_every_few_attempts() {
    everywhere(|name, policy, shows| {
        let (world, falls) = (World::new(300, shows), std::cell::Cell::new(0));
        world.range_with(100_000, 512, policy, |number, size| {
            if number % 7 == 0 && falls.get() < 30 {
                falls.set(falls.get() + 1);
                world.device.set_budget(bytes(300 - falls.get() * 9));
            }
            world.attempt(size)
        });
        let early = world.attempts.borrow()[..210].iter().filter(|attempt| !attempt.1).count();
        assert!(early <= 2 * 30 + 9, "{name} {shows:?}: {early} failures in {} falls", falls.get());
        assert!(world.kept() <= 30, "{name} {shows:?}: {} of 30", world.kept());
    });
}

#[test]
fn failures_for_no_reason_cost_little() {
    for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
        for seed in 0..10_u64 {
            let (world, mut state) = (World::new(300, shows), seed);
            world.range_with(300_000, 512, Adaptive::default(), |_, size| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // A neighbor takes all memory for a moment.
                if (state >> 33).is_multiple_of(100) {
                    world.attempt_of(size, u64::MAX, TIME)
                } else {
                    world.attempt(size)
                }
            });
            let attempts = world.attempts.borrow().len();
            assert!(attempts <= 1600, "{attempts} where 1000 would do, with seed {seed}, {shows:?}");
        }
    }
}

/// Makes calls before, during and after a shortage, and returns the size that is kept. An attempt takes `fixed`
/// milliseconds and one per item.
fn after_a_shortage(
    policy: &dyn Policy,
    shows: Shows,
    is_batch: bool,
    (fixed, calls): (u64, usize),
) -> usize {
    let world = World::new(1000, shows);
    let body = |size: usize| {
        world.attempt_of(size, BASE + size as u64 * ITEM, Duration::from_millis(fixed + size as u64))
    };
    let make = |count| {
        for _ in 0..count {
            if is_batch {
                world.batch_with(512, policy, body);
            } else {
                world.range_with(512, 512, policy, |_, size| body(size));
            }
        }
    };
    make(50);
    world.device.set_budget(bytes(4));
    make(3);
    assert!(world.kept() <= 4, "{} of 4 with {policy:?}", world.kept());
    world.device.set_budget(bytes(1000));
    make(calls);
    world.kept()
}

#[test]
fn only_policies_that_measure_grow_back_after_a_passing_shortage() {
    for (name, policy) in policies() {
        let kept = after_a_shortage(&*policy, Shows::Nothing, true, (10, 300));
        assert_eq!(kept > 64, ["Adaptive", "Throughput"].contains(&name), "{kept} with {name}");
    }
    for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
        assert_eq!(after_a_shortage(&Adaptive::default(), shows, false, (10, 50)), 512, "short calls add up");
    }
    for is_batch in [false, true] {
        let kept = after_a_shortage(&Throughput::default(), Shows::Nothing, is_batch, (500, 150));
        assert!(kept >= 256, "{kept} of 512, batch: {is_batch}");
    }
}

/// Every attempt takes the same time whatever its size, so the cost of the floor is the highest possible.
fn attempt_in_a_burst(world: &World, number: usize, size: usize) -> Result<(), FakeOutOfMemory> {
    world.device.set_budget(bytes(if number < 20 { 1 } else { 1000 }));
    world.attempt_of(size, BASE + size as u64 * ITEM, Duration::from_secs(2))
}

#[test]
fn a_burst_that_leaves_the_smallest_size_alone_passes() {
    for (name, policy) in policies() {
        for shows in [Shows::Unnamed, Shows::Nothing, Shows::Free, Shows::Everything] {
            let world = World::new(1, shows);
            world.range_with(100_000, 64, &*policy, |number, size| attempt_in_a_burst(&world, number, size));
            assert_eq!(world.last_size(), 64, "{name} {shows:?}: in a range");

            let world = World::new(1, shows);
            let batch =
                |_, number| world.batch_with(64, &*policy, |size| attempt_in_a_burst(&world, number, size));
            assert_eq!((0..5000).fold(0, batch), 64, "{name} {shows:?}: in batches");
        }
    }
}
