//! `Adaptive` inside one call.

use toma::{Adaptive, Halve};

use crate::adaptive::world::{Shows, World};

#[test]
fn ends_near_the_limit_wherever_it_is() {
    for limit in [1, 2, 3, 7, 37, 100, 300, 511, 900, 3000] {
        for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
            let world = World::new(limit, shows);
            world.range(2000 * limit, 4096, Adaptive::default());
            let kept = world.kept();
            // A size of 20 cannot be nearer than 5 %.
            assert!(
                kept <= limit && kept as f64 >= limit as f64 * 0.94 - 1.0,
                "{kept} of {limit}, {shows:?}"
            );
        }
    }
}

#[test]
fn probes_waste_no_more_than_they_may() {
    for waste in [0.0, 0.005, 0.02] {
        let world = World::new(300, Shows::Nothing);
        // The working size is known, so every failure is a probe.
        world.range(3000, 400, Halve);
        let before = (world.clock.elapsed(), world.lost());
        world.range(300_000, 400, Adaptive::default().waste(waste));
        let spent = world.clock.elapsed().saturating_sub(before.0).as_secs_f64();
        let wasted = world.lost().saturating_sub(before.1).as_secs_f64() / spent;
        assert!(wasted <= waste * 1.001, "{wasted} of {waste}");
        assert_eq!(world.failures() > 0, waste > 0.0);
    }
}

#[test]
fn short_work_is_not_worth_a_probe_nor_little_work_a_doubt() {
    let world = World::new(300, Shows::Nothing);
    world.range(512, 512, Adaptive::default());
    assert_eq!(*world.attempts.borrow(), [(512, false), (256, true), (256, true)]);
    for _ in 0..5 {
        world.range(512, 512, Adaptive::default());
        assert_eq!(world.failures(), 0, "few short calls are not put at risk");
    }
    let world = World::new(300, Shows::Nothing);
    world.range(400 * 300, 4096, Adaptive::default());
    assert!(failures_after(&world, 40).is_empty(), "{}", world.failures());
}

#[test]
fn shrinks_faster_the_more_has_failed() {
    let world = World::new(3, Shows::Nothing);
    world.range(4096, 4096, Adaptive::default());
    let failed: Vec<_> =
        world.attempts.borrow().iter().take_while(|(_, succeeded)| !succeeded).map(|a| a.0).collect();
    assert_eq!(failed, [4096, 2048, 512, 64, 8]);
}

#[test]
fn a_size_that_fails_below_one_that_runs_is_passed_over() {
    for shows in [Shows::Nothing, Shows::Free] {
        let world = World::new(1000, shows);
        let body = |_, size: usize| {
            let bytes = if size == 16 || size > 40 { u64::MAX } else { 0 };
            world.attempt_of(size, bytes, std::time::Duration::from_millis(100))
        };
        world.range_with(200_010, 4096, Adaptive::default(), body);
        assert!(
            (36..=40).contains(&world.last_size()),
            "{} {}",
            world.last_size(),
            toma::report::last().unwrap()
        );
    }
}

#[test]
fn follows_a_limit_that_moves() {
    for (shows, steps) in [(Shows::Free, 20), (Shows::Everything, 20), (Shows::Nothing, 40)] {
        for limit in [150, 600] {
            let world = World::new(300, shows);
            world.range_that_moves(100, limit);
            let attempts = world.attempts.borrow();
            let near = |&(size, _): &(usize, bool)| size <= limit && size as f64 >= 0.9 * limit as f64;
            let steps = if limit < 300 { 20 } else { steps };
            let later = &attempts[100 + steps..100 + steps + 200];
            let share = later.iter().filter(|attempt| near(attempt)).count();
            // Where the device reports little, sizes known to fail are sometimes tried again.
            let bar = if shows == Shows::Everything { 190 } else { 180 };
            assert!(share >= bar, "{share} of 200 near {limit} after {steps} attempts, {shows:?}");
        }
    }
}

#[test]
fn a_rise_that_nothing_shows_is_found_as_soon_where_no_device_was_given() {
    let late = |shows, at| {
        let world = World::new(300, shows);
        world.range_that_moves(at, 600);
        let attempts = world.attempts.borrow();
        attempts[at..].iter().position(|&(size, succeeded)| succeeded && size > 500)
    };
    for at in [100, 400, 1000] {
        let steps = late(Shows::Unnamed, at);
        assert!(steps.is_some_and(|steps| steps <= 20.max(at / 8)), "{steps:?} attempts after {at}");
        assert_eq!(steps, late(Shows::Nothing, at), "the host's memory says nothing about another");
    }
}

/// Returns the numbers of the failed attempts from attempt `first` on, by which the limit is found.
fn failures_after(world: &World, first: usize) -> Vec<usize> {
    let attempts = world.attempts.borrow();
    (first..attempts.len()).filter(|&number| !attempts[number].1).collect()
}

#[test]
fn a_size_that_keeps_failing_is_tried_less_and_less() {
    let world = World::new(300, Shows::Nothing);
    world.range(3_000_000, 4096, Adaptive::default().doubt(0.1));
    let failed = failures_after(&world, 40);
    assert!((10..60).contains(&failed.len()), "{failed:?}");
    let found = failed[0];
    for pair in failed.windows(2) {
        let (gap, age) = (pair[1] - pair[0], pair[1] - found);
        assert!(gap >= 16.max(age / 12), "{gap} attempts after {age}: {failed:?}");
        assert!(gap <= 20.max(age / 8), "{gap} attempts after {age}: {failed:?}");
    }
}

#[test]
fn a_larger_share_of_doubt_means_fewer_failures() {
    let failures = [0.05, 0.2, 0.5].map(|doubt| {
        let world = World::new(300, Shows::Nothing);
        world.range(3_000_000, 4096, Adaptive::default().doubt(doubt));
        world.failures()
    });
    assert!(failures[0] > 2 * failures[1] && failures[1] > failures[2] + 5, "{failures:?}");
}

#[test]
fn the_search_ends() {
    let world = World::new(300, Shows::Free);
    world.range(3_000_000, 4096, Adaptive::default());
    let later = &world.attempts.borrow()[100..];
    assert!(
        later.iter().filter(|(_, succeeded)| !succeeded).count() <= 2,
        "what has not changed is left alone"
    );
}

#[test]
fn a_warm_call_starts_where_the_last_one_ended() {
    for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
        let world = World::new(300, shows);
        world.range(600_000, 4096, Adaptive::default());
        world.range(6000, 4096, Adaptive::default());
        assert_eq!(world.failures(), 0, "{shows:?}");
        assert!(world.attempts.borrow()[0].0 >= 285, "{:?}", world.attempts.borrow()[0]);
    }
}
