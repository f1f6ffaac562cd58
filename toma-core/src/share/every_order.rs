//! Three participants with short scripts in every order in which their steps can happen.

use std::collections::HashSet;
use std::iter::once;

use super::arbiter::{Arbiter, Entry, Kind};
use super::slots::{Device, Node, Runner};

/// A step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// An attempt begins, inside those of the script that have not ended.
    Begin(Kind, Device),
    /// The innermost attempt ends.
    End,
    /// The piece is done: what was waited for so far counts no more.
    Piece,
}

use Kind::{Alone, Shared};
use Step::{Begin, End, Piece};

const A: Device = Device::new(1).unwrap();
const B: Device = Device::new(2).unwrap();

const SCRIPTS: &[&[Step]] = &[
    &[Begin(Alone, A), End, Begin(Alone, A), End],
    &[Begin(Shared, A), End, Begin(Alone, A), End, Piece, Begin(Alone, A), End],
    &[Begin(Shared, A), Begin(Shared, A), End, Begin(Alone, A), End, End],
    &[Begin(Alone, A), Begin(Shared, A), End, Begin(Alone, A), End, End],
    &[Begin(Shared, A), Begin(Shared, B), End, Begin(Alone, B), End, End],
    &[Begin(Alone, A), Begin(Alone, B), End, End],
    &[Begin(Alone, B), Begin(Alone, A), End, End],
    &[Begin(Shared, B), Begin(Alone, A), Begin(Shared, B), End, End, End],
    &[Begin(Shared, A), Begin(Shared, A), Begin(Alone, A), End, End, End],
];

/// What those who wait do beside waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Patience {
    Endless,
    /// They may begin out of turn, as after a bound.
    Bounded,
    /// They may go away without having begun, as a future that is dropped.
    Fickle,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Participant {
    script: &'static [Step],
    ticket: u64,
    /// The attempts that have not ended, the innermost last; the last one may wait.
    attempts: Vec<Runner>,
    begun: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    arbiter: Arbiter,
    participants: [Participant; 3],
    patience: Patience,
    /// Somebody began out of turn, so being alone is a promise no more.
    barged_in: bool,
}

impl World {
    fn new(scripts: [&'static [Step]; 3], patience: Patience) -> Self {
        let participants =
            scripts.map(|script| Participant { script, ticket: 0, attempts: vec![], begun: 0 });
        Self { arbiter: Arbiter::default(), participants, patience, barged_in: false }
    }

    fn waits(&self, of: usize) -> bool {
        self.participants[of].attempts.last().is_some_and(|last| self.arbiter.is_waiting(last.node))
    }

    fn running(&self) -> Vec<Runner> {
        let attempts = self.participants.iter().flat_map(|participant| &participant.attempts);
        attempts.filter(|attempt| !self.arbiter.is_waiting(attempt.node)).copied().collect()
    }

    /// What may happen next: any one step of anybody.
    fn successors(&self) -> Vec<Self> {
        (0..3).filter_map(|of| self.step(of)).collect()
    }

    fn step(&self, of: usize) -> Option<Self> {
        let mut next = self.clone();
        if self.waits(of) {
            next.lose_patience(of)?;
        } else {
            let (&step, rest) = self.participants[of].script.split_first()?;
            next.participants[of].script = rest;
            match step {
                Begin(kind, device) => next.begin(of, kind, device),
                End => next.end(of),
                Piece => next.participants[of].ticket = 0,
            }
        }
        next.admit();
        next.check();
        Some(next)
    }

    fn begin(&mut self, of: usize, kind: Kind, device: Device) {
        let participant = &mut self.participants[of];
        participant.begun += 1;
        let node = Node::new(of, participant.begun);
        let around: Vec<_> = participant.attempts.iter().map(|attempt| attempt.node).collect();
        let (who, running) = (Runner { node, device }, self.running());
        if kind == Shared && self.arbiter.has_room_for(who, &around, &running) {
            self.overtakes_nobody(who, &around);
        } else {
            assert!(kind == Alone || !self.belongs(who, &around), "an outer one has room for it: {self:#?}");
            let participant = &mut self.participants[of];
            if participant.ticket == 0 {
                participant.ticket = self.arbiter.draw();
            }
            let ticket = participant.ticket;
            self.arbiter.join(Entry { ticket, who, around, kind, holds: false });
        }
        self.participants[of].attempts.push(who);
    }

    fn end(&mut self, of: usize) {
        let ended = self.participants[of].attempts.pop().expect("scripts end what they began");
        self.arbiter.remove(ended.node);
    }

    fn lose_patience(&mut self, of: usize) -> Option<()> {
        match self.patience {
            Patience::Endless => return None,
            Patience::Bounded => {
                let last = self.participants[of].attempts.last()?;
                self.arbiter.remove(last.node);
            }
            Patience::Fickle => {
                self.end(of);
                let rest = self.participants[of].script;
                let ended = rest.iter().scan(1, |depth, step| {
                    *depth += match step {
                        Begin(..) => 1,
                        End => -1,
                        Piece => 0,
                    };
                    Some(*depth)
                });
                let skip = ended.take_while(|depth| *depth > 0).count() + 1;
                self.participants[of].script = &rest[skip..];
            }
        }
        self.barged_in = true;
        Some(())
    }

    fn admit(&mut self) {
        let before = self.arbiter.clone();
        for who in self.arbiter.admit(self.running()) {
            let entry = before.entries().find(|entry| entry.who == who).expect("only who waits is let in");
            if entry.kind == Alone || !self.belongs(who, &entry.around) {
                let mut ahead = self.waiting_for(who.device).filter(|other| goes_before(other, entry));
                assert!(!ahead.any(|other| other.kind == Alone || entry.kind == Alone), "{self:#?}");
            }
            if entry.kind == Alone {
                assert_eq!(self.waited_for(who), 0, "not alone: {who:?} {self:#?}");
            }
        }
    }

    /// Who comes new passes nobody that waits to be alone, unless it is nested and the other is not, or
    /// it is a part of what the other waits for.
    fn overtakes_nobody(&self, who: Runner, around: &[Node]) {
        let mut alone = self.waiting_for(who.device).filter(|entry| entry.kind == Alone);
        let overtaken = alone.any(|entry| around.is_empty() || !entry.around.is_empty());
        assert!(self.belongs(who, around) || !overtaken, "{who:?} overtakes: {self:#?}");
    }

    fn waiting_for(&self, device: Device) -> impl Iterator<Item = &Entry> {
        self.arbiter.entries().filter(move |entry| !entry.holds && entry.who.device == device)
    }

    fn belongs(&self, who: Runner, around: &[Node]) -> bool {
        self.running().iter().any(|outer| outer.device == who.device && around.contains(&outer.node))
    }

    fn owner(&self, who: Runner) -> usize {
        let mut all = self.participants.iter();
        all.position(|participant| participant.attempts.contains(&who)).expect("it has not ended")
    }

    fn is_nested(&self, who: Runner) -> bool {
        self.participants[self.owner(who)].attempts[0] != who
    }

    /// Attempts of other participants that hold memory of the device of `who`.
    fn holding(&self, who: Runner) -> impl Iterator<Item = Runner> {
        let own = self.owner(who);
        let here = move |other: &Runner| other.device == who.device && self.owner(*other) != own;
        self.running().into_iter().filter(here)
    }

    /// Those of them that run: whose innermost does not wait.
    fn beside(&self, who: Runner) -> usize {
        self.holding(who).filter(|other| !self.waits(self.owner(*other))).count()
    }

    /// Those of them that `who` waits for when it wants to be alone.
    fn waited_for(&self, who: Runner) -> usize {
        if self.is_nested(who) { self.beside(who) } else { self.holding(who).count() }
    }

    fn check(&self) {
        if !self.barged_in {
            for who in self.arbiter.entries().filter(|entry| entry.holds).map(|entry| entry.who) {
                if !self.waits(self.owner(who)) {
                    assert_eq!(self.beside(who), 0, "not alone: {who:?} {self:#?}");
                }
                // Also while it is held up.
                let nested = self.holding(who).all(|other| self.is_nested(other));
                assert!(self.is_nested(who) || nested, "not alone: {who:?} {self:#?}");
            }
        }
        for of in (0..3).filter(|&of| !self.waits(of)) {
            let Some((who, around)) = self.participants[of].attempts.split_last() else { continue };
            let around: Vec<_> = around.iter().map(|outer| outer.node).collect();
            let beside = self.arbiter.beside(*who, &around, &self.running()).count();
            assert_eq!(beside, self.waited_for(*who), "{who:?} {self:#?}");
        }
        for device in [A, B] {
            self.waits_for_somebody(device);
        }
    }

    /// Whoever is first waits for somebody who has begun; and where it is nested, for one who runs, and
    /// who will therefore end.
    fn waits_for_somebody(&self, device: Device) {
        let Some(first) = self.waiting_for(device).next() else { return };
        let others = if first.around.is_empty() {
            self.holding(first.who).count()
        } else {
            let attempts = &self.participants[self.owner(first.who)].attempts;
            attempts.iter().map(|own| self.beside(*own)).sum()
        };
        assert!(others > 0, "nobody is in its way: {self:#?}");
    }

    fn is_over(&self) -> bool {
        self.participants.iter().all(|participant| participant.script.is_empty())
    }
}

/// Whether the one comes before the other in the queue: nested ones do, and then the oldest.
fn goes_before(one: &Entry, other: &Entry) -> bool {
    match (one.around.is_empty(), other.around.is_empty()) {
        (false, true) => true,
        (true, false) => false,
        _ => one.ticket < other.ticket,
    }
}

/// Returns how many different situations there were.
fn explore(first: World) -> usize {
    let (mut seen, mut ends) = (HashSet::new(), 0);
    let mut open: Vec<_> = once(first).collect();
    while let Some(world) = open.pop() {
        if !seen.insert(world.clone()) {
            continue;
        }
        if world.is_over() {
            assert_eq!(world.arbiter.len(), 0, "left behind: {world:#?}");
            ends += 1;
        }
        let next = world.successors();
        // Every step brings the end nearer, so a script that can always go on ends.
        assert!(world.is_over() || !next.is_empty(), "nobody can go on: {world:#?}");
        open.extend(next);
    }
    assert!(ends > 0);
    seen.len()
}

fn explore_all(patience: Patience) {
    let mut situations = 0;
    for (first, one) in SCRIPTS.iter().enumerate() {
        for (second, two) in SCRIPTS.iter().enumerate().skip(first) {
            for three in SCRIPTS.iter().skip(second) {
                situations += explore(World::new([one, two, three], patience));
            }
        }
    }
    assert!(situations > 10_000, "{situations}");
    println!("{patience:?}: {situations}");
}

#[test]
fn in_every_order_with_endless_patience() {
    explore_all(Patience::Endless);
}

#[test]
fn in_every_order_with_bounds() {
    explore_all(Patience::Bounded);
}

#[test]
fn in_every_order_with_waits_that_are_dropped() {
    explore_all(Patience::Fickle);
}
