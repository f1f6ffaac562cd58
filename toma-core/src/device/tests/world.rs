//! Nested loops on a device of six bytes, run on the pure queue as the engine runs them.
//!
//! Sizes are at their floor, so an attempt that fails is repeated or given up.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use crate::device::queue::TurnKind::{self, Exclusive, Shared};
use crate::device::queue::{Admitted, QueueState, Seen, Standing};
use crate::device::sleepers::SleeperId;

const BUDGET: u8 = 6;

/// Events in addition to the steps of the participants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Beside {
    Nothing,
    /// Time passes twice, and with it the bounds of the waits that are left.
    Bounds,
    Cancels,
    /// The participants are tasks, and are dropped.
    Drops,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    Step(usize),
    Tick,
    Cancel(usize),
    Drop(usize),
}

/// A call with nested loops, of one piece each. All bodies go on if a loop inside has failed.
#[derive(Clone, Debug)]
pub(super) struct Participant {
    /// Bytes that the piece of each loop holds.
    holds: &'static [u8],
    /// The turn that the call asks for first; `None` if it never waits.
    asks: Option<TurnKind>,
    stage: Stage,
    turn: Option<Admitted>,
    /// Snapshot and held bytes of each running attempt, the outermost first.
    attempts: Vec<(Seen, u8)>,
    woken: bool,
    look_at: Option<Instant>,
    /// Number of attempts of the outermost loop.
    tries: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Stage {
    Begins,
    Waits(TurnKind, Instant),
    Allocates,
    BodyEnds,
    Fails,
    Over { succeeded: bool },
}

#[derive(Clone, Debug)]
pub(super) struct World {
    beside: Beside,
    state: QueueState,
    /// Participants that wait and were granted nothing, in the order of arrival.
    queue: Vec<usize>,
    participants: [Participant; 3],
    now: u8,
}

impl Participant {
    pub(super) fn new(asks: Option<TurnKind>, holds: &'static [u8]) -> Self {
        let (stage, turn, attempts) = (Stage::Begins, None, Vec::new());
        Self { holds, asks, stage, turn, attempts, woken: false, look_at: None, tries: 0 }
    }
}

fn key(of: usize) -> SleeperId {
    SleeperId(of as u64)
}

fn moment(tick: u8) -> Instant {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    *BEGIN + Duration::from_secs(tick.into())
}

impl World {
    pub(super) fn new(participants: [Participant; 3], beside: Beside) -> Self {
        Self { beside, state: QueueState::new(1), queue: Vec::new(), participants, now: 0 }
    }

    /// Returns a hash of the situation that ignores the numbers of turns.
    pub(super) fn situation(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.queue, self.now, self.state.is_unusual()).hash(&mut hasher);
        for (of, one) in self.participants.iter().enumerate() {
            (one.stage, one.attempts.len(), one.asks, one.woken, one.look_at, one.tries).hash(&mut hasher);
            for &(seen, holds) in &one.attempts {
                (self.state.has_contention(seen), holds).hash(&mut hasher);
            }
            let turn = self.turn(of).map(|Admitted { id, kind, seen }| {
                let is_contended = self.state.has_contention(seen);
                (kind, is_contended, self.state.is_marked(id), self.state.is_in_the_way(id))
            });
            turn.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The turn of a participant, claimed or not.
    fn turn(&self, of: usize) -> Option<Admitted> {
        self.participants[of].turn.or_else(|| self.state.granted(key(of)))
    }

    fn turns(&self) -> impl Iterator<Item = TurnKind> {
        (0..3).filter_map(|of| self.turn(of)).map(|turn| turn.kind)
    }

    /// Returns the possible next moves. There always is one, until all calls are over and have left nothing behind.
    pub(super) fn moves(&self) -> Vec<Move> {
        let (mut moves, mut asleep, mut waits) = (Vec::new(), Vec::new(), false);
        for (of, one) in self.participants.iter().enumerate() {
            let is_due = one.woken || one.look_at.is_some_and(|at| at <= moment(self.now));
            waits |= matches!(one.stage, Stage::Waits(..));
            match one.stage {
                Stage::Over { .. } => {}
                Stage::Waits(..) if !is_due => asleep.push(Move::Cancel(of)),
                _ => moves.push(Move::Step(of)),
            }
        }
        let is_over = moves.is_empty() && asleep.is_empty();
        assert!(!moves.is_empty() || is_over && self.state.is_empty(), "stuck, or left behind: {self:#?}");
        match self.beside {
            Beside::Bounds if waits && self.now < 2 => moves.push(Move::Tick),
            Beside::Cancels => moves.append(&mut asleep),
            Beside::Drops => moves.extend((0..3).map(Move::Drop)),
            _ => {}
        }
        moves
    }

    /// Makes a move, and checks the invariants.
    pub(super) fn apply(&mut self, next: Move) {
        match next {
            Move::Step(of) => self.step(of),
            Move::Tick => self.now += 1,
            Move::Cancel(of) => (self.participants[of].asks, self.participants[of].woken) = (None, true),
            Move::Drop(of) => self.drop(of),
        }
        assert_eq!(self.state.running, self.turns().count(), "{self:#?}");
        for (of, one) in self.participants.iter().enumerate() {
            assert!(one.woken || self.state.granted(key(of)).is_none(), "{of} was not woken: {self:#?}");
            assert!(one.tries <= 2 + self.now, "{of} is tried for ever: {self:#?}");
        }
    }

    /// True if none has given up.
    pub(super) fn all_succeed(&self) -> bool {
        self.participants.iter().all(|one| one.stage != Stage::Over { succeeded: false })
    }

    fn step(&mut self, of: usize) {
        match self.participants[of].stage {
            Stage::Begins => self.begin(of),
            Stage::Waits(_, until) => self.poll(of, until),
            Stage::Allocates => self.allocate(of),
            Stage::BodyEnds => self.end_body(of),
            Stage::Fails => self.fail(of),
            Stage::Over { .. } => unreachable!("it makes no step"),
        }
    }

    fn begin(&mut self, of: usize) {
        if self.participants[of].turn.is_some() {
            return self.run(of, self.state.seen());
        }
        if !self.has_patience(of) {
            return self.begin_beside(of);
        }
        if self.participants[of].asks == Some(Exclusive) {
            return self.queue(of, Exclusive);
        }
        let is_free = self.queue.is_empty() && self.turns().all(|kind| kind == Shared);
        let begun = self.state.try_shared();
        assert_eq!(begun.is_some(), is_free, "{of}: {self:#?}");
        match begun {
            Some(begun) => self.admit(of, begun),
            None => self.queue(of, Shared),
        }
    }

    fn begin_beside(&mut self, of: usize) {
        let begun = self.state.begin(Shared);
        self.admit(of, begun);
    }

    fn admit(&mut self, of: usize, begun: Admitted) {
        self.participants[of].turn = Some(begun);
        self.participants[of].tries += 1;
        self.run(of, begun.seen);
    }

    fn run(&mut self, of: usize, seen: Seen) {
        self.participants[of].attempts.push((seen, 0));
        self.participants[of].stage = Stage::Allocates;
    }

    /// True if the call waits for the device now.
    fn has_patience(&mut self, of: usize) -> bool {
        self.participants[of].asks.is_some() && self.state.has_patience(moment(self.now))
    }

    fn queue(&mut self, of: usize, kind: TurnKind) {
        let until = moment(if self.beside == Beside::Bounds { self.now + 1 } else { u8::MAX });
        self.state.queue(key(of), kind, Some(until));
        self.queue.push(of);
        // The entry looks at once, in a step of its own.
        (self.participants[of].stage, self.participants[of].woken) = (Stage::Waits(kind, until), true);
        self.look();
    }

    fn poll(&mut self, of: usize, until: Instant) {
        self.look();
        let is_late = until <= moment(self.now);
        let one = &mut self.participants[of];
        one.woken = false;
        match self.state.claim(key(of)) {
            Standing::Granted(begun) => self.admit(of, begun),
            Standing::Waits { look_at } if one.asks.is_some() => {
                one.look_at = look_at;
                assert!(!is_late, "{of} waits beyond its bound: {self:#?}");
            }
            _ => {
                if is_late {
                    self.state.waited_in_vain(moment(self.now + 10));
                }
                self.withdraw(of);
                self.begin_beside(of);
                self.look();
            }
        }
    }

    fn withdraw(&mut self, of: usize) {
        self.state.withdraw(key(of));
        self.queue.retain(|waits| *waits != of);
    }

    /// Skips and grants. Turns are granted in order, none next to an exclusive one, and all that there is room for.
    fn look(&mut self) {
        for SleeperId(woken) in self.state.look(moment(self.now)) {
            let of = usize::try_from(woken).expect("a participant");
            self.participants[of].woken = true;
            if self.state.granted(key(of)).is_some() {
                assert_eq!(self.queue[0], of, "{of} overtakes: {self:#?}");
                let is_alone = self.turns().count() == 1;
                assert!(is_alone || self.turns().all(|kind| kind == Shared), "{of} is not alone: {self:#?}");
            }
            self.queue.retain(|waits| *waits != of);
        }
        let head = self.queue.first().map(|&of| self.participants[of].stage);
        let is_exclusive = matches!(head, Some(Stage::Waits(Exclusive, _)));
        let is_blocked = self.turns().any(|kind| is_exclusive || kind == Exclusive);
        assert!(is_blocked || head.is_none(), "the head could begin: {self:#?}");
    }

    fn allocate(&mut self, of: usize) {
        let attempts = self.participants.iter().flat_map(|one| &one.attempts);
        let held: u8 = attempts.map(|(_, holds)| holds).sum();
        let one = &mut self.participants[of];
        let innermost = one.attempts.len() - 1;
        let fits = held + one.holds[innermost] <= BUDGET;
        one.attempts[innermost].1 = if fits { one.holds[innermost] } else { 0 };
        one.stage = match one.holds.get(innermost + 1) {
            _ if !fits => Stage::Fails,
            Some(_) => Stage::Begins,
            None => Stage::BodyEnds,
        };
    }

    /// Ends the body. That of a marked attempt fails.
    fn end_body(&mut self, of: usize) {
        let one = &self.participants[of];
        match one.turn {
            Some(turn) if one.attempts.len() == 1 && self.state.is_marked(turn.id) => self.fail(of),
            _ => self.end(of, true),
        }
    }

    /// Undoes the attempt. If others may have been in its way, the outermost attempt is repeated alone.
    fn fail(&mut self, of: usize) {
        let one = &mut self.participants[of];
        let is_nested = one.attempts.len() > 1;
        let (seen, holds) = one.attempts.last_mut().expect("one fails");
        *holds = 0;
        let is_contended = self.state.has_contention(*seen);
        match one.turn.filter(|turn| turn.kind == Shared && is_contended) {
            Some(turn) if is_nested => self.state.mark(turn.id),
            Some(_) if self.has_patience(of) => {
                self.queue(of, Exclusive);
                self.participants[of].attempts.clear();
                return self.end_turn(of);
            }
            _ => {}
        }
        self.end(of, false);
    }

    /// Ends the innermost attempt and its call.
    fn end(&mut self, of: usize, succeeded: bool) {
        self.participants[of].attempts.pop();
        self.participants[of].stage = Stage::BodyEnds;
        if self.participants[of].attempts.is_empty() {
            self.participants[of].stage = Stage::Over { succeeded };
            self.end_turn(of);
        }
    }

    fn end_turn(&mut self, of: usize) {
        if let Some(turn) = self.participants[of].turn.take() {
            self.state.end(turn.id);
            self.look();
        }
    }

    fn drop(&mut self, of: usize) {
        let before = mem::replace(&mut self.participants[of].stage, Stage::Over { succeeded: true });
        self.participants[of].attempts.clear();
        self.end_turn(of);
        if let Stage::Waits(..) = before {
            self.withdraw(of);
            self.look();
        }
    }
}
