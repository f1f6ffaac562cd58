//! `Adaptive` across calls.

use std::time::Duration;

use toma::policy::Policy;
use toma::{Adaptive, Throughput};

use crate::adaptive::world::{ITEM, Shows, World, bytes};

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
    // By the missing bytes, 308 would fit in proportion.
    assert_eq!(*world.attempts.borrow(), [(512, false), (128, true)]);
    world.batch(512, Adaptive::default());
    assert!(world.attempts.borrow()[2].0 >= 270, "{:?}", world.attempts.borrow());
}

#[test]
fn an_absurd_number_of_bytes_is_no_evidence_of_the_size() {
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
    let follows = |policy: &dyn Policy, fixed: u64, most: usize, (shows, limit)| {
        let world = World::new(300, shows);
        let time = |size| Duration::from_millis(fixed + size as u64);
        let body = |size| world.attempt_of(size, bytes(size) - ITEM / 2, time(size));
        let batches = |count| (0..count).for_each(|_| _ = world.batch_with(4096, policy, body));
        batches(100);
        world.device.set_budget(bytes(limit));
        batches(25);
        let before = world.attempts.borrow().len();
        batches(25);
        let attempts = &world.attempts.borrow()[before..];
        let near = attempts.iter().filter(|&&(size, _)| size <= limit && size * 10 >= limit * 9);
        let others = attempts.len() - near.count();
        assert!(others <= most, "{policy:?}: {attempts:?} for {limit}, {shows:?}");
    };
    for shows in [Shows::Nothing, Shows::Free, Shows::Everything] {
        for limit in [75, 150, 600] {
            follows(&Adaptive::default(), 300, 2, (shows, limit));
            follows(&Throughput::default(), 500, 2, (shows, limit));
        }
    }
}

/// Returns the time spent in attempts, each of which takes 10 ms and 1 ms per item in this world.
fn spent(world: &World) -> Duration {
    let attempts = world.attempts.borrow();
    attempts.iter().map(|&(size, _)| Duration::from_millis(10 + size as u64)).sum()
}

#[test]
fn nights_without_work_pay_for_no_probe() {
    // One batch a night; then as many batches in a row.
    for rest in [Duration::from_secs(24 * 3600), Duration::ZERO] {
        let world = World::new(300, Shows::Nothing);
        world.batch(512, Adaptive::default());
        let before = world.lost();
        for number in 0..300 {
            assert!(number > 5 || world.failures() == 1 || !rest.is_zero(), "few calls are put at risk");
            world.clock.advance(rest);
            world.batch(512, Adaptive::default());
        }
        let wasted = world.lost().saturating_sub(before);
        // In addition to the bound on probes, a search may cost the time that it may save on as many batches again.
        assert!(wasted <= spent(&world) / 25, "{wasted:?} of {:?} are lost", spent(&world));
        assert!(!wasted.is_zero(), "what the batches take pays for probes, with {rest:?} between them");
    }
}

#[test]
fn time_or_a_rise_of_free_memory_makes_a_failure_doubtful() {
    let day = Duration::from_secs(24 * 3600);
    for (shows, rest, calls) in [(Shows::Nothing, day, 300), (Shows::Free, Duration::ZERO, 3000)] {
        let world = World::new(300, shows);
        let batches = |count| (0..count).for_each(|_| _ = world.batch(512, Adaptive::default()));
        batches(3000);
        let failed = world.failures();
        if shows == Shows::Free {
            batches(300);
            assert_eq!(world.failures(), failed, "nothing has changed");
        }
        world.device.set_budget(bytes(500));
        world.clock.advance(rest);
        batches(calls);
        assert!(world.kept() >= 475, "{} with {shows:?}", world.kept());
    }
}

#[test]
fn a_size_that_shrank_far_at_once_soon_grows_back() {
    let world = World::new(1000, Shows::Free);
    // Something else asks for a hundred times the available bytes, once.
    let time = |size| Duration::from_millis(10 + size as u64);
    world.batch_with(512, Adaptive::default(), |size| {
        world.attempt_of(size, if size == 512 { 100 * bytes(1000) } else { bytes(size) }, time(size))
    });
    assert_eq!(world.attempts.borrow()[1], (2, true));
    let calls = (0..1000).take_while(|_| world.batch(512, Adaptive::default()) < 128).count();
    assert!(calls <= 150, "{calls} calls");
}
