//! Many threads at once, with real locks and wakers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;

use super::random::Dice;
use super::*;

/// A device on which is counted what runs.
struct Counted {
    device: Device,
    shared: AtomicUsize,
    exclusive: AtomicUsize,
}

impl Counted {
    /// Runs it on 8 threads at once, so often on each.
    fn on_threads(times: usize, body: impl Fn(&Self, &mut Dice) + Sync) {
        let (begin, shared, exclusive) = (Barrier::new(8), AtomicUsize::new(0), AtomicUsize::new(0));
        let counted = Self { device: device(), shared, exclusive };
        thread::scope(|scope| {
            for seed in 1..=8 {
                let (begin, body, counted) = (&begin, &body, &counted);
                scope.spawn(move || {
                    let mut dice = Dice(seed);
                    begin.wait();
                    (0..times).for_each(|_| body(counted, &mut dice));
                });
            }
        });
        assert!(is_empty(&counted.device), "something is left");
    }

    fn enter(&self, kind: TurnKind) -> Turn {
        let shared = if kind == TurnKind::Shared { self.device.try_shared() } else { None };
        shared.unwrap_or_else(|| in_turn(Some(self.device.wait_for(kind, at_most(AGES)).wait())))
    }

    /// An attempt in which nothing runs that must not.
    fn attempt(&self, turn: &Turn, middle: impl FnOnce()) {
        let own = if turn.is_exclusive() { &self.exclusive } else { &self.shared };
        own.fetch_add(1, Relaxed);
        let check = || {
            let (shared, exclusive) = (self.shared.load(Relaxed), self.exclusive.load(Relaxed));
            let expected = if turn.is_exclusive() { (0, 1) } else { (shared, 0) };
            assert_eq!((shared, exclusive), expected);
        };
        check();
        thread::yield_now();
        check();
        own.fetch_sub(1, Relaxed);
        middle();
    }
}

fn kind(dice: &mut Dice) -> TurnKind {
    if dice.is_one_in(3) { TurnKind::Exclusive } else { TurnKind::Shared }
}

#[test]
fn an_exclusive_turn_is_exclusive() {
    Counted::on_threads(400, |world, dice| {
        let turn = world.enter(kind(dice));
        world.attempt(&turn, || ());
        if dice.is_one_in(4) {
            let again = in_turn(Some(turn.exclusive_again(at_most(AGES)).wait()));
            world.attempt(&again, || ());
        }
    });
}

#[test]
fn a_panic_half_way_leaves_the_device_to_the_others() {
    Counted::on_threads(200, |world, dice| {
        let (kind, breaks) = (kind(dice), dice.is_one_in(2));
        let result = catch_unwind(AssertUnwindSafe(|| {
            let turn = world.enter(kind);
            // Without a message, which would be hundreds.
            world.attempt(&turn, || {
                if breaks {
                    resume_unwind(Box::new("half-way"))
                }
            });
        }));
        assert_eq!(result.is_err(), breaks);
    });
}

#[test]
fn waits_that_end_early_leave_nothing_behind() {
    Counted::on_threads(200, |world, dice| {
        let (cancel, kind) = (Cancel::new(), kind(dice));
        let short = at_most(Duration::from_micros(dice.roll(200).into()));
        match dice.roll(4) {
            0 => drop(Task::new(world.device.wait_for(kind, at_most(AGES))).poll()),
            1 => drop(world.device.wait_for(kind, short).wait()),
            2 => thread::scope(|scope| {
                scope.spawn(|| cancel.cancel());
                let bounds = WaitBounds { cancel: Some(&cancel), ..at_most(AGES) };
                drop(world.device.wait_for(kind, bounds).wait());
            }),
            _ => drop(world.device.begin_beside()),
        }
        thread::yield_now();
    });
}

#[test]
fn no_turn_is_lost_between_eight_threads() {
    let turns = AtomicUsize::new(0);
    Counted::on_threads(250, |world, _| {
        let turn = world.enter(TurnKind::Exclusive);
        // Not atomic, so that one would be lost if two had the turn.
        turns.store(turns.load(Relaxed) + 1, Relaxed);
        drop(turn);
    });
    assert_eq!(turns.into_inner(), 2000);
}
