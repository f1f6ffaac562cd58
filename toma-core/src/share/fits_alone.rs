//! Loops in loops that hold memory, in every order in which their steps can happen: each fits alone, and
//! so none gives up.
//!
//! Sizes are at their floor, so an attempt that fails among others is made once more, alone, and what
//! fails then is passed on to the attempt around it. Outermost calls have begun, so they know of each other.

use std::collections::HashSet;
use std::iter::once;

use super::arbiter::{Arbiter, Entry, Kind};
use super::slots::{Device, Node, Runner};

const A: Device = Device::new(1).unwrap();
const B: Device = Device::new(2).unwrap();

/// Of each device. What each needs at most, together in its loops, is no more.
const BUDGET: u8 = 6;

/// A loop, with what it holds in each of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Level {
    pieces: u8,
    holds: u8,
    device: Device,
}

const fn level(pieces: u8, holds: u8, device: Device) -> Level {
    Level { pieces, holds, device }
}

/// Each loop is inside the pieces of the one before it.
type Work = &'static [Level];

const ON_ONE_DEVICE: &[Work] = &[
    &[level(2, 4, A)],
    &[level(1, 3, A), level(2, 3, A)],
    &[level(1, 2, A), level(1, 2, A), level(1, 2, A)],
];

/// Nobody waits while it holds the second of the two. Otherwise one that is alone on the first could fail for
/// what is held up on the second, and nothing would be left to try.
const ON_TWO_DEVICES: &[Work] = &[
    &[level(2, 4, A)],
    &[level(2, 3, B)],
    &[level(2, 3, A), level(1, 4, B)],
    &[level(1, 1, A), level(1, 4, A), level(2, 4, B)],
];

/// A call, inside the attempt of the one below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    pieces_left: u8,
    ticket: u64,
    stage: Stage,
    /// The coming attempt, or the one that has begun, is alone: because it failed, or in turn.
    alone: Option<Why>,
    /// Others worked on the device as the attempt began.
    had_company: bool,
    /// Of the pieces to come, so many are made alone.
    turns: u8,
    who: Option<Runner>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Why {
    Failed,
    InTurn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Between,
    /// The attempt has begun, or waits for it, and holds nothing yet.
    Begun,
    Holds,
    /// What is inside has failed.
    Failed,
    /// What is inside is done.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Participant {
    work: Work,
    calls: Vec<Call>,
    begun: u64,
    is_done: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    arbiter: Arbiter,
    participants: [Participant; 3],
}

impl Call {
    fn new(Level { pieces, .. }: Level) -> Self {
        let (stage, alone, had_company, who) = (Stage::Between, None, false, None);
        Self { pieces_left: pieces, ticket: 0, stage, alone, had_company, turns: 0, who }
    }
}

impl World {
    fn new(works: [Work; 3]) -> Self {
        let participants =
            works.map(|work| Participant { work, calls: vec![Call::new(work[0])], begun: 0, is_done: false });
        Self { arbiter: Arbiter::default(), participants }
    }

    fn running(&self) -> Vec<Runner> {
        let calls = self.participants.iter().flat_map(|participant| &participant.calls);
        let attempts = calls.filter_map(|call| call.who);
        attempts.filter(|who| !self.arbiter.is_waiting(who.node)).collect()
    }

    /// The calls that are not over, each with its level.
    fn calls(&self, of: usize) -> impl Iterator<Item = (&Call, &Level)> {
        let Participant { calls, work, .. } = &self.participants[of];
        calls.iter().zip(*work)
    }

    fn free(&self, device: Device) -> u8 {
        let calls = (0..3).flat_map(|of| self.calls(of));
        let holding = calls.filter(|(call, _)| !matches!(call.stage, Stage::Between | Stage::Begun));
        let here = holding.filter(|(_, level)| level.device == device);
        BUDGET - here.map(|(_, level)| level.holds).sum::<u8>()
    }

    fn has_company(&self, of: usize, device: Device) -> bool {
        let mut others = (0..3).filter(|other| *other != of).flat_map(|other| self.calls(other));
        others.any(|(_, level)| level.device == device)
    }

    fn level(&self, of: usize) -> Level {
        *self.calls(of).last().expect("it is not done").1
    }

    /// The next step of one of them, unless it waits or is done.
    fn step(&self, of: usize) -> Option<Self> {
        let mut next = self.clone();
        let call = next.participants[of].calls.last()?;
        if call.who.is_some_and(|who| next.arbiter.is_waiting(who.node)) {
            return None;
        }
        match call.stage {
            Stage::Between => next.begin(of),
            Stage::Begun => next.allocate(of),
            Stage::Holds => next.go_inside(of),
            Stage::Failed => next.fail(of),
            Stage::Done => next.succeed(of),
        }
        next.arbiter.admit(next.running());
        Some(next)
    }

    fn call(&mut self, of: usize) -> &mut Call {
        self.participants[of].calls.last_mut().expect("it is not done")
    }

    fn begin(&mut self, of: usize) {
        let (running, device) = (self.running(), self.level(of).device);
        let had_company = self.has_company(of, device);
        let participant = &mut self.participants[of];
        participant.begun += 1;
        let who = Runner { node: Node::new(of, participant.begun), device };
        let (call, outer) = participant.calls.split_last_mut().expect("it is not done");
        let around: Vec<_> = outer.iter().filter_map(|call| Some(call.who?.node)).collect();
        if call.alone.is_none() && call.turns > 0 {
            call.alone = Some(Why::InTurn);
        }
        (call.stage, call.who, call.had_company) = (Stage::Begun, Some(who), had_company);
        let kind = if call.alone.is_some() { Kind::Alone } else { Kind::Shared };
        if kind == Kind::Shared && self.arbiter.has_room_for(who, &around, &running) {
            return;
        }
        if call.ticket == 0 {
            call.ticket = self.arbiter.draw();
        }
        self.arbiter.join(Entry { ticket: call.ticket, who, around, kind, holds: false });
    }

    fn allocate(&mut self, of: usize) {
        let Level { holds, device, .. } = self.level(of);
        if holds <= self.free(device) {
            self.call(of).stage = Stage::Holds;
        } else {
            self.fail(of);
        }
    }

    fn go_inside(&mut self, of: usize) {
        let participant = &mut self.participants[of];
        match participant.work.get(participant.calls.len()) {
            Some(inner) => participant.calls.push(Call::new(*inner)),
            None => self.succeed(of),
        }
    }

    /// Its memory is free, and others may begin.
    fn leave(&mut self, of: usize) {
        let call = self.call(of);
        call.stage = Stage::Between;
        let who = call.who.take().expect("it has begun");
        self.arbiter.remove(who.node);
    }

    fn succeed(&mut self, of: usize) {
        self.leave(of);
        let nested = self.participants[of].calls.len() > 1;
        let call = self.call(of);
        match call.alone.take() {
            Some(Why::Failed) => call.turns = u8::from(!nested),
            Some(Why::InTurn) => call.turns -= 1,
            None => {}
        }
        (call.ticket, call.pieces_left) = (0, call.pieces_left - 1);
        if call.pieces_left == 0 {
            self.end(of, Stage::Done);
        }
    }

    fn fail(&mut self, of: usize) {
        let company = self.has_company(of, self.level(of).device);
        let call = self.call(of);
        let tries_again = call.alone.is_none() && (company || call.had_company);
        self.leave(of);
        if tries_again {
            self.call(of).alone = Some(Why::Failed);
        } else {
            self.end(of, Stage::Failed);
        }
    }

    /// The call is over, and the attempt around it goes on.
    fn end(&mut self, of: usize, with: Stage) {
        let participant = &mut self.participants[of];
        participant.calls.pop();
        match participant.calls.last_mut() {
            Some(outer) => outer.stage = with,
            None => participant.is_done = true,
        }
        assert!(with == Stage::Done || !participant.is_done, "{of} gives up: {self:#?}");
    }
}

fn explore(first: World) -> usize {
    let mut seen = HashSet::new();
    let mut open: Vec<_> = once(first).collect();
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        let next: Vec<_> = (0..3).filter_map(|of| world.step(of)).collect();
        let is_over = world.participants.iter().all(|participant| participant.is_done);
        assert!(is_over || !next.is_empty(), "nobody can go on: {world:#?}");
        open.extend(next);
    }
    seen.len()
}

fn explore_all(works: &[Work]) {
    let mut situations = 0;
    for (first, one) in works.iter().enumerate() {
        for (second, two) in works.iter().enumerate().skip(first) {
            for three in works.iter().skip(second) {
                situations += explore(World::new([one, two, three]));
            }
        }
    }
    assert!(situations > 10_000, "{situations}");
    println!("{situations}");
}

#[test]
fn every_order_on_one_device_ends_well() {
    explore_all(ON_ONE_DEVICE);
}

#[test]
fn every_order_on_two_devices_ends_well() {
    explore_all(ON_TWO_DEVICES);
}
