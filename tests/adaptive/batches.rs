//! `Adaptive` from call to call.

use std::time::Duration;

use toma::Adaptive;

use crate::world::{ITEM, Shows, World, bytes};

#[test]
fn climbs_to_the_limit_and_stays_there() {
    for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
        let world = World::new(300, shows);
        let sizes: Vec<usize> = (0..3000).map(|_| world.batch(512, Adaptive::default())).collect();
        assert!(sizes[..1500].is_sorted(), "a batch that works is never followed by a smaller one");
        assert!(sizes[2999] >= 285, "{} of 300, {shows:?}", sizes[2999]);
        // The first failure is no probe.
        let wasted = world.lost().saturating_sub(Duration::from_millis(10 + 512));
        assert!(wasted <= world.clock.elapsed() / 50, "{wasted:?} are lost, {shows:?}");
    }
}

#[test]
fn never_starts_small_to_measure() {
    let world = World::new(300, Shows::Everything);
    world.batch(512, Adaptive::default());
    // Half of what fits at most, by what was lacking.
    assert_eq!(*world.attempts.borrow(), [(512, false), (154, true)]);
    world.batch(512, Adaptive::default());
    assert!(world.attempts.borrow()[2].0 >= 270, "{:?}", world.attempts.borrow());
}

#[test]
fn an_absurd_number_of_bytes_says_nothing_of_the_size() {
    let world = World::new(300, Shows::Free);
    let absurd = |size: usize| if size > 300 { 1 << 50 } else { bytes(size) };
    let time = Duration::from_millis(10);
    assert_eq!(
        world.batch_with(512, Adaptive::default(), |size| world.attempt_of(size, absurd(size), time)),
        256
    );
}

#[test]
fn follow_a_limit_that_moves_within_twenty_calls() {
    for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
        for limit in [75, 150, 600] {
            let world = World::new(300, shows);
            // Half of the time does not depend on the size.
            let time = |size| Duration::from_millis(300 + size as u64);
            let body = |size| world.attempt_of(size, bytes(size) - ITEM / 2, time(size));
            let batch = || world.batch_with(4096, Adaptive::default(), body);
            (0..100).for_each(|_| _ = batch());
            world.device.set_budget(bytes(limit));
            let sizes: Vec<usize> = (0..50).map(|_| batch()).collect();
            let near = sizes[25..].iter().filter(|&&size| size <= limit && size * 10 >= limit * 9);
            assert!(near.count() >= 24, "{sizes:?} for {limit}, {shows:?}");
        }
    }
}

#[test]
fn a_failure_that_took_long_is_no_sign_that_the_limit_is_far() {
    // Each call works off everything, and fails where the memory is lost: the third time almost at the end.
    let (world, slow) = (World::new(300, Shows::Nothing), Duration::from_secs(10));
    let body = |size: usize| {
        let time = if size <= 512 { slow } else { Duration::from_millis(10) };
        world.attempt_of(size, bytes(size), time)
    };
    assert_eq!(world.batch_with(4096, Adaptive::default(), body), 256);
}

#[test]
fn few_long_calls_are_not_put_at_risk() {
    let world = World::new(300, Shows::Nothing);
    (0..6).for_each(|_| _ = world.batch(512, Adaptive::default()));
    assert_eq!(world.failures(), 1, "{:?}", world.attempts.borrow());
}

/// Time spent in attempts, which in this world all take 10 ms and 1 ms per item.
fn spent(world: &World) -> Duration {
    let attempts = world.attempts.borrow();
    attempts.iter().map(|&(size, _)| Duration::from_millis(10 + size as u64)).sum()
}

#[test]
fn nights_without_work_pay_for_no_probe() {
    // A batch a night; then as many batches in a row.
    for rest in [Duration::from_secs(24 * 3600), Duration::ZERO] {
        let world = World::new(300, Shows::Nothing);
        world.batch(512, Adaptive::default());
        let before = (spent(&world), world.lost());
        for _ in 0..300 {
            world.clock.advance(rest);
            world.batch(512, Adaptive::default());
        }
        let wasted = world.lost().saturating_sub(before.1);
        // Beyond what probes may waste, a search costs what it may save on as many batches again.
        assert!(wasted <= spent(&world) / 25, "{wasted:?} of {:?} are lost", spent(&world));
        assert!(!wasted.is_zero(), "what the batches take pays for probes, with {rest:?} between them");
    }
}

#[test]
fn time_makes_a_failure_doubtful() {
    let world = World::new(300, Shows::Nothing);
    (0..3000).for_each(|_| _ = world.batch(512, Adaptive::default()));
    world.device.set_budget(bytes(500));
    world.clock.advance(Duration::from_secs(24 * 3600));
    (0..300).for_each(|_| _ = world.batch(512, Adaptive::default()));
    assert!(world.kept() >= 475, "{}", world.kept());
}

#[test]
fn a_rise_of_free_memory_makes_a_failure_doubtful() {
    let world = World::new(300, Shows::Free);
    (0..3000).for_each(|_| _ = world.batch(512, Adaptive::default()));
    let failed = world.failures();
    (0..300).for_each(|_| _ = world.batch(512, Adaptive::default()));
    assert_eq!(world.failures(), failed, "nothing has changed");
    world.device.set_budget(bytes(500));
    (0..3000).for_each(|_| _ = world.batch(512, Adaptive::default()));
    assert!(world.kept() >= 475, "{}", world.kept());
}

#[test]
fn what_shrank_far_at_once_soon_grows_back() {
    let world = World::new(1000, Shows::Free);
    // Something else asks for a hundred times what is there, once.
    let time = |size| Duration::from_millis(10 + size as u64);
    world.batch_with(512, Adaptive::default(), |size| {
        world.attempt_of(size, if size == 512 { 100 * bytes(1000) } else { bytes(size) }, time(size))
    });
    assert_eq!(world.attempts.borrow()[1], (2, true));
    let calls = (0..1000).take_while(|_| world.batch(512, Adaptive::default()) < 128).count();
    assert!(calls <= 150, "{calls} calls");
}
