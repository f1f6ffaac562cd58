//! `Adaptive` from call to call.

use std::time::Duration;

use toma::Adaptive;

use crate::world::{Shows, World, bytes};

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
    assert_eq!(*world.attempts.borrow(), [(512, false), (256, true)]);
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
        assert!(wasted <= spent(&world) / 50, "{wasted:?} of {:?} are lost", spent(&world));
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
