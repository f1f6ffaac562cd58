//! Many threads at once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;

use super::*;

/// A device on which is counted who runs.
struct World {
    hub: &'static Hub,
    ordinary: AtomicUsize,
    alone: AtomicUsize,
    /// Nobody begins out of turn, so being alone can be counted on.
    in_turn: bool,
}

impl World {
    fn new(in_turn: bool) -> Self {
        Self { hub: hub(), ordinary: AtomicUsize::new(0), alone: AtomicUsize::new(0), in_turn }
    }

    /// An attempt, with something in the middle.
    fn attempt(&self, kind: Kind, middle: impl FnOnce()) {
        let (own, other) = match kind {
            Kind::Shared => (&self.ordinary, None),
            Kind::Alone => (&self.alone, Some(&self.ordinary)),
        };
        let _counted = Counted::new(own);
        let check = || {
            let beside = self.alone.load(Relaxed) + other.map_or(0, |other| other.load(Relaxed));
            let own = usize::from(kind == Kind::Alone);
            assert!(!self.in_turn || beside == own, "{kind:?} beside {beside}");
        };
        check();
        thread::yield_now();
        middle();
        check();
    }

    fn is_quiet(&self) -> bool {
        let seat = Seat::of(self.hub, DEVICE);
        self.hub.is_empty() && seat.others() == 0 && seat.try_enter(None)
    }

    /// Runs it on 8 threads at once.
    fn on_threads(&self, body: impl Fn(&Self, &mut Dice) + Sync) {
        let begin = Barrier::new(8);
        thread::scope(|scope| {
            for seed in 1..=8 {
                let (begin, body) = (&begin, &body);
                scope.spawn(move || {
                    begin.wait();
                    body(self, &mut Dice(seed));
                });
            }
        });
        assert!(self.is_quiet(), "somebody is left");
        // Two calls of each thread, in blocks of 8 and 16.
        assert!(self.hub.slots() <= 24, "more slots than calls");
    }
}

struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn enter(seat: &Seat, kind: Kind, parent: Option<Node>) {
    if kind == Kind::Alone || !seat.try_enter(parent) {
        assert_eq!(seat.admission(kind, parent, ages()).wait(), Admitted::Yes);
    }
}

#[test]
fn a_thousand_calls_of_eight_threads_never_meet_one_that_is_alone() {
    World::new(true).on_threads(|world, dice| {
        for _ in 0..125 {
            let seat = Seat::of(world.hub, DEVICE);
            for _ in 0..=dice.roll(3) {
                let kind = if dice.roll(3) == 0 { Kind::Alone } else { Kind::Shared };
                enter(&seat, kind, None);
                world.attempt(kind, || ());
                seat.leave();
                seat.next_piece();
            }
        }
    });
}

#[test]
fn a_panic_half_way_leaves_the_device_to_the_others() {
    World::new(true).on_threads(|world, dice| {
        for _ in 0..125 {
            let kind = if dice.roll(2) == 0 { Kind::Alone } else { Kind::Shared };
            let breaks = dice.roll(2) == 0;
            let result = catch_unwind(AssertUnwindSafe(|| {
                let seat = Seat::of(world.hub, DEVICE);
                enter(&seat, kind, None);
                // Without a message, which would be hundreds.
                world.attempt(kind, || {
                    if breaks {
                        resume_unwind(Box::new("half-way"))
                    }
                });
            }));
            assert_eq!(result.is_err(), breaks);
        }
    });
}

#[test]
fn nested_attempts_that_want_to_be_alone_do_not_wait_for_each_other() {
    World::new(false).on_threads(|world, dice| {
        for _ in 0..60 {
            let outer = Seat::of(world.hub, DEVICE);
            let (kind, inner_kind) = match dice.roll(3) {
                0 => (Kind::Shared, Kind::Alone),
                1 => (Kind::Alone, Kind::Shared),
                _ => (Kind::Alone, Kind::Alone),
            };
            enter(&outer, kind, None);
            let inner = Seat::of(world.hub, if dice.roll(3) == 0 { "elsewhere" } else { DEVICE });
            enter(&inner, inner_kind, Some(outer.node()));
            thread::yield_now();
            inner.leave();
            outer.leave();
        }
    });
}

#[test]
fn waits_that_end_early_leave_nothing_behind() {
    World::new(false).on_threads(|world, dice| {
        for _ in 0..125 {
            let (seat, cancel) = (Seat::of(world.hub, DEVICE), Cancel::new());
            let until = Instant::now().checked_add(Duration::from_micros(dice.roll(200)));
            let kind = if dice.roll(2) == 0 { Kind::Alone } else { Kind::Shared };
            match dice.roll(4) {
                0 => drop(Task::new(seat.admission(kind, None, ages())).poll()),
                1 => drop(seat.admission(kind, None, Bounds { until, cancel: None }).wait()),
                2 => thread::scope(|scope| {
                    scope.spawn(|| cancel.cancel());
                    seat.admission(kind, None, Bounds { until: None, cancel: Some(&cancel) }).wait();
                }),
                _ => enter(&seat, kind, None),
            }
            thread::yield_now();
        }
    });
}

#[test]
fn four_threads_take_turns_at_being_alone() {
    let (hub, turns) = (hub(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let seat = Seat::of(hub, DEVICE);
                for _ in 0..250 {
                    enter(&seat, Kind::Alone, None);
                    // Not atomic, so that a turn would be lost if two had one.
                    turns.store(turns.load(Relaxed) + 1, Relaxed);
                    seat.leave();
                    seat.next_piece();
                }
            });
        }
    });
    assert_eq!(turns.into_inner(), 1000);
    assert!(hub.is_empty());
}
