//! Random schedules: a few participants with loops in loops on two devices, bounds, cancellations, dropped
//! tasks and reservations, in a random order of steps.
//!
//! `TOMA_STRESS_ATTEMPTS=N` makes so many schedules instead of the 5,000 of the checks.

use super::world::{BUDGET, Level, Move, Plan, World};

/// The same numbers in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    #[allow(clippy::cast_possible_truncation, reason = "a number below `sides` is a byte")]
    pub(super) fn roll(&mut self, sides: u8) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(sides)) as u8
    }

    pub(super) fn is_one_in(&mut self, sides: u8) -> bool {
        self.roll(sides) == 0
    }
}

/// What a schedule may contain.
#[derive(Clone, Copy, Debug)]
struct TurnKind {
    devices: u8,
    /// Bounds pass, calls are cancelled, tasks are dropped, and some do not wait at all.
    disturbed: bool,
}

impl TurnKind {
    fn plan(self, dice: &mut Dice) -> Plan {
        let mut left = BUDGET;
        let levels = (0..=dice.roll(3)).map(|_| {
            let holds = dice.roll(left.min(4) + 1);
            left -= holds;
            let device = (!dice.is_one_in(8)).then(|| usize::from(dice.roll(self.devices)));
            let reserves = if dice.is_one_in(4) { 1 + dice.roll(BUDGET) } else { 0 };
            let holds = if device.is_some() { holds } else { 0 };
            Level { device, pieces: 1 + dice.roll(3), holds, reserves, swallows: dice.is_one_in(4) }
        });
        let levels = levels.collect();
        let bound = match dice.roll(if self.disturbed { 4 } else { 1 }) {
            0 => Some(u8::MAX),
            1 => None,
            bound => Some(bound),
        };
        Plan { levels, bound }
    }

    fn schedule(self, seed: u64) {
        let dice = &mut Dice(seed);
        let participants = 2 + dice.roll(3);
        let plans: Vec<_> = (0..participants).map(|_| self.plan(dice)).collect();
        let mut world = World::new(self.devices.into(), plans);
        for _ in 0..100_000 {
            if world.is_over() {
                let gave_up = (0..participants.into()).find(|&of| world.gave_up(of));
                assert!(self.disturbed || self.devices > 1 || gave_up.is_none(), "{gave_up:?} {world:#?}");
                return;
            }
            let next = self.choose(&world, participants, dice);
            world.apply(next);
        }
        panic!("seed {seed} does not end: {world:#?}");
    }

    fn choose(self, world: &World, participants: u8, dice: &mut Dice) -> Move {
        let of = usize::from(dice.roll(participants));
        if self.disturbed && !world.is_done(of) {
            match dice.roll(50) {
                0 => return Move::Drop(of),
                1 => return Move::Cancel(of),
                2..8 => return Move::Tick,
                _ => {}
            }
        }
        let begin = dice.roll(participants);
        let mut all = (0..participants).map(|next| usize::from((begin + next) % participants));
        match all.find(|&of| world.can_step(of)) {
            Some(able) => Move::Step(able),
            None if self.disturbed => Move::Tick,
            None => panic!("none can go on: {world:#?}"),
        }
    }
}

fn schedules() -> u64 {
    let text = std::env::var("TOMA_STRESS_ATTEMPTS").ok();
    text.map_or(5_000, |text| text.parse().expect("TOMA_STRESS_ATTEMPTS: must be a number"))
}

#[test]
fn on_one_device_all_that_fit_succeed() {
    let kind = TurnKind { devices: 1, disturbed: false };
    (0..schedules()).for_each(|seed| kind.schedule(seed));
}

#[test]
fn on_two_devices_no_wake_up_is_lost() {
    let kind = TurnKind { devices: 2, disturbed: false };
    (0..schedules()).for_each(|seed| kind.schedule(seed));
}

#[test]
fn bounds_hold_whatever_disturbs() {
    let kind = TurnKind { devices: 2, disturbed: true };
    (0..schedules()).for_each(|seed| kind.schedule(seed));
}
