//! Loops in loops on devices of few bytes, as the engine runs them, with a naive twin of each queue beside it.
//!
//! Sizes are at their floor, so an attempt that fails for good passes its failure on to the attempt around
//! it. One step of one participant is a move; the driver of the world chooses the moves.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::twin::Twin;
use crate::device::ledger::{Ledger, Wish};
use crate::device::queue::{Admitted, QueueState, Seen, Standing, TurnKind};
use crate::device::sleepers::SleeperId;
use crate::memory::Reading;
use crate::nesting::TurnId;

use TurnKind::{Exclusive, Shared};

/// The bytes of each device.
pub(super) const BUDGET: u8 = 6;

const PROCESS: u32 = 1;

/// A loop, inside the pieces of the one before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// `None`: without the option `device`.
    pub(super) device: Option<usize>,
    pub(super) pieces: u8,
    /// What each piece holds.
    pub(super) holds: u8,
    /// Bytes that the call reserves before its first piece.
    pub(super) reserves: u8,
    /// The body goes on where the loop inside has failed.
    pub(super) swallows: bool,
}

/// What a participant does, and how it waits.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) levels: Vec<Level>,
    /// The bound of each wait, in ticks. `None`: it does not wait.
    pub(super) bound: Option<u8>,
}

/// A call, inside the attempt of the one below it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Call {
    pieces: u8,
    stage: Stage,
    turn: Option<Admitted>,
    seen: Option<Seen>,
    /// The attempt has begun, perhaps without knowing of it yet.
    is_open: bool,
    /// Another participant had a turn on the device meanwhile.
    met: bool,
    promises: bool,
    repeated: bool,
    /// The exclusive turn comes after a failure under contention.
    after_contention: bool,
    /// Of the pieces to come, so many are exclusive from the beginning.
    exclusive: u8,
    spell: u8,
    holds: u8,
    reserved: Option<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Reserves(Option<Instant>),
    Between,
    Waits(Option<Instant>),
    /// The attempt has begun, and holds nothing yet.
    Admitted,
    Inside,
    Failed,
    Done,
}

#[derive(Clone, Debug)]
struct Participant {
    plan: Plan,
    calls: Vec<Call>,
    woken: bool,
    look_at: Option<Instant>,
    cancelled: bool,
    gave_up: bool,
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Move {
    Step(usize),
    /// The clock goes on by a tick.
    Tick,
    Cancel(usize),
    /// The participant is a task, and is dropped.
    Drop(usize),
}

#[derive(Clone, Debug)]
pub(super) struct World {
    states: Vec<QueueState>,
    ledgers: Vec<Ledger>,
    twins: Vec<Twin>,
    participants: Vec<Participant>,
    pub(super) now: u32,
}

impl Call {
    fn new(level: Level) -> Self {
        let stage = if level.reserves > 0 { Stage::Reserves(None) } else { Stage::Between };
        Self {
            pieces: level.pieces,
            stage,
            turn: None,
            seen: None,
            is_open: false,
            met: false,
            promises: false,
            repeated: false,
            after_contention: false,
            exclusive: 0,
            spell: 0,
            holds: 0,
            reserved: None,
        }
    }
}

impl Hash for Call {
    /// All but numbers that differ from one order of steps to the other.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { pieces, stage, turn, met, is_open, promises, .. } = self;
        (pieces, mem::discriminant(stage), turn.map(|turn| turn.kind), met, is_open, promises).hash(state);
        let Self { repeated, after_contention, exclusive, spell, holds, reserved, .. } = self;
        (repeated, after_contention, exclusive, spell, holds, reserved).hash(state);
    }
}

pub(super) fn moment(tick: u32) -> Instant {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    *BEGIN + Duration::from_secs(tick.into())
}

impl World {
    pub(super) fn new(devices: usize, plans: impl IntoIterator<Item = Plan>) -> Self {
        let participants = plans.into_iter().map(|plan| Participant {
            calls: vec![Call::new(plan.levels[0])],
            plan,
            woken: false,
            look_at: None,
            cancelled: false,
            gave_up: false,
        });
        Self {
            states: vec![QueueState::new(PROCESS); devices],
            ledgers: vec![Ledger::new(PROCESS); devices],
            twins: vec![Twin::default(); devices],
            participants: participants.collect(),
            now: 0,
        }
    }

    /// Tells situations apart that differ in more than the numbers of turns and tickets.
    pub(super) fn situation(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.twins, self.now).hash(&mut hasher);
        for Participant { calls, woken, look_at, cancelled, gave_up, .. } in &self.participants {
            (calls.len(), woken, look_at, cancelled, gave_up).hash(&mut hasher);
            calls.hash(&mut hasher);
            let turns = calls.iter().filter_map(|call| call.turn);
            let marked = turns.filter(|turn| self.states.iter().any(|state| state.is_marked(turn.id)));
            marked.count().hash(&mut hasher);
        }
        hasher.finish()
    }

    pub(super) fn is_done(&self, of: usize) -> bool {
        self.participants[of].calls.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        (0..self.participants.len()).all(|of| self.is_done(of))
    }

    pub(super) fn is_cancelled(&self, of: usize) -> bool {
        self.participants[of].cancelled
    }

    pub(super) fn gave_up(&self, of: usize) -> bool {
        self.participants[of].gave_up
    }

    pub(super) fn waits(&self, of: usize) -> bool {
        let last = self.participants[of].calls.last();
        last.is_some_and(|call| matches!(call.stage, Stage::Waits(..) | Stage::Reserves(Some(_))))
    }

    /// Whether the participant is running or has been told to look.
    pub(super) fn can_step(&self, of: usize) -> bool {
        let Participant { woken, look_at, .. } = &self.participants[of];
        // The first of those that wait for bytes looks again and again.
        let late = look_at.is_some_and(|at| moment(self.now) + Duration::from_millis(10) >= at);
        !self.is_done(of) && (!self.waits(of) || *woken || late)
    }

    /// The next moment at which a wait looks although nothing has woken it.
    pub(super) fn has_alarm(&self) -> bool {
        (0..self.participants.len()).any(|of| self.waits(of) && self.participants[of].look_at.is_some())
    }

    pub(super) fn apply(&mut self, next: Move) {
        match next {
            Move::Step(of) => self.step(of),
            Move::Tick => self.now += 1,
            Move::Cancel(of) => {
                self.participants[of].cancelled = true;
                self.participants[of].woken = true;
            }
            Move::Drop(of) => self.drop(of),
        }
        self.check();
    }

    fn step(&mut self, of: usize) {
        match self.call(of).stage {
            Stage::Reserves(until) => self.reserve(of, until),
            Stage::Between => self.begin(of),
            Stage::Waits(until) => self.poll(of, until),
            Stage::Admitted => self.allocate(of),
            Stage::Failed => self.fail(of),
            Stage::Done => self.end_of_body(of),
            Stage::Inside => unreachable!("the innermost call takes the steps"),
        }
    }

    fn call(&mut self, of: usize) -> &mut Call {
        self.participants[of].calls.last_mut().expect("it is not done")
    }

    /// Tells its innermost wait from all others that last.
    fn key(&self, of: usize) -> SleeperId {
        SleeperId((of * 10 + self.participants[of].calls.len()) as u64)
    }

    fn level(&self, of: usize) -> Level {
        let Participant { plan, calls, .. } = &self.participants[of];
        plan.levels[calls.len() - 1]
    }

    /// The devices on which enclosing attempts hold turns, the outermost first.
    fn enclosing(&self, of: usize) -> impl Iterator<Item = usize> {
        let Participant { plan, calls, .. } = &self.participants[of];
        let outer = calls.iter().zip(&plan.levels).take(calls.len() - 1);
        outer.filter(|(call, _)| call.turn.is_some()).filter_map(|(_, level)| level.device)
    }

    /// The outermost turn, where it is on the device and its attempt will be redone after contention.
    fn promised_on(&self, of: usize, device: usize) -> Option<TurnId> {
        let Participant { plan, calls, .. } = &self.participants[of];
        let mut outer = calls.iter().zip(&plan.levels).take(calls.len() - 1);
        let (call, level) = outer.find(|(call, _)| call.turn.is_some())?;
        call.turn.filter(|_| call.promises && level.device == Some(device)).map(|turn| turn.id)
    }

    fn free(&self, device: usize) -> u8 {
        let held = self.participants.iter().flat_map(|participant| {
            let calls = participant.calls.iter().zip(&participant.plan.levels);
            calls.filter(|(_, level)| level.device == Some(device)).map(|(call, _)| call.holds)
        });
        BUDGET - held.sum::<u8>()
    }

    fn bound(&self, of: usize) -> Option<u8> {
        let Participant { plan, cancelled, .. } = &self.participants[of];
        plan.bound.filter(|_| !cancelled)
    }

    /// How long the call waits for the device now, if it does.
    fn waits_at_most(&mut self, of: usize, device: usize) -> Option<u8> {
        let (now, bound) = (moment(self.now), self.bound(of));
        assert_eq!(self.states[device].has_patience(now), self.twins[device].has_patience(now));
        bound.filter(|_| self.states[device].has_patience(now))
    }

    fn reserve(&mut self, of: usize, until: Option<Instant>) {
        let level = self.level(of);
        let (Some(device), now) = (level.device, moment(self.now)) else {
            return self.call(of).stage = Stage::Between;
        };
        let wait = self.bound(of).filter(|_| self.enclosing(of).next().is_none());
        let until = until.unwrap_or_else(|| moment(self.now + u32::from(wait.unwrap_or(0))));
        let wish = Wish { key: self.key(of), bytes: level.reserves.into(), promised: 0, until: Some(until) };
        let free = Reading::new(self.free(device).into(), BUDGET.into());
        let (answer, woken) = self.ledgers[device].ask(wish, Some(free), now);
        let allowed = self.twins[device].reserve(&wish, free, now);
        assert_eq!(answer.is_ok(), allowed, "{wish:?} {self:#?}");
        self.wake(woken);
        let participant = &mut self.participants[of];
        (participant.woken, participant.look_at) = (false, answer.err().and_then(|refused| refused.look_at));
        match answer {
            Ok(_) => {
                self.call(of).reserved = Some(level.reserves);
                self.call(of).stage = Stage::Between;
            }
            Err(_) if now >= until || wait.is_none() => {
                self.leave_ledger(of);
                self.call(of).stage = Stage::Between;
            }
            Err(_) => self.call(of).stage = Stage::Reserves(Some(until)),
        }
    }

    fn leave_ledger(&mut self, of: usize) {
        let Some(device) = self.level(of).device else { return };
        let key = self.key(of);
        let first = self.ledgers[device].withdraw(key);
        self.wake(first);
        self.twins[device].leave_ledger(key);
    }

    /// The reservation of the call ends with it.
    fn give_back(&mut self, of: usize) {
        let Some(device) = self.level(of).device else { return };
        if let Some(bytes) = self.call(of).reserved.take() {
            let first = self.ledgers[device].give_back(bytes.into(), PROCESS);
            self.twins[device].give_back(bytes.into());
            self.wake(first);
        }
    }

    fn begin(&mut self, of: usize) {
        let Some(device) = self.level(of).device else {
            return self.call(of).stage = Stage::Admitted;
        };
        if self.enclosing(of).any(|held| held == device) {
            let seen = self.states[device].seen();
            return self.runs(of, device, None, seen);
        }
        let is_nested = self.enclosing(of).next().is_some();
        let wait = self.waits_at_most(of, device).filter(|_| !is_nested);
        let Some(bound) = wait else { return self.begin_beside(of, device) };
        if self.call(of).exclusive > 0 {
            return self.queue(of, device, Exclusive, bound);
        }
        let begun = self.states[device].try_shared();
        assert_eq!(begun.is_some(), self.twins[device].admits_newcomer(), "{of}: {self:#?}");
        let Some(begun) = begun else { return self.queue(of, device, Shared, bound) };
        self.twins[device].begin(of, Shared);
        self.runs(of, device, Some(begun), begun.seen);
    }

    fn begin_beside(&mut self, of: usize, device: usize) {
        let begun = self.states[device].begin(Shared);
        self.twins[device].begin(of, Shared);
        self.runs(of, device, Some(begun), begun.seen);
    }

    fn queue(&mut self, of: usize, device: usize, kind: TurnKind, bound: u8) {
        let until = moment(self.now + u32::from(bound));
        let key = self.key(of);
        self.states[device].queue(key, kind, Some(until));
        self.twins[device].queue(of, kind, until);
        self.call(of).stage = Stage::Waits(Some(until));
        // It is polled at once.
        self.participants[of].woken = true;
        self.look(device);
    }

    fn runs(&mut self, of: usize, device: usize, turn: Option<Admitted>, seen: Seen) {
        self.open(of, device);
        let promises = turn.is_some_and(|turn| turn.kind == Shared)
            && self.enclosing(of).next().is_none()
            && self.waits_at_most(of, device).is_some();
        let call = self.call(of);
        (call.stage, call.turn, call.seen, call.promises) = (Stage::Admitted, turn, Some(seen), promises);
    }

    /// An attempt begins, which others meet and which meets others.
    fn open(&mut self, of: usize, device: usize) {
        let met = self.twins[device].others(of) > 0;
        let call = self.call(of);
        if call.is_open {
            return;
        }
        (call.is_open, call.met) = (true, met);
        if self.enclosing(of).any(|held| held == device) {
            return;
        }
        for (_, other) in self.participants.iter_mut().enumerate().filter(|(other, _)| *other != of) {
            let calls = other.calls.iter_mut().zip(&other.plan.levels);
            calls
                .filter(|(call, level)| call.is_open && level.device == Some(device))
                .for_each(|(call, _)| call.met = true);
        }
    }

    /// Skips and grants, in the queue and in its twin, and wakes.
    fn look(&mut self, device: usize) {
        let woken = self.states[device].look(moment(self.now));
        for of in self.twins[device].take_back(moment(self.now)) {
            let call = self.call(of);
            (call.is_open, call.met) = (false, false);
        }
        for of in self.twins[device].look(moment(self.now)) {
            self.open(of, device);
        }
        self.wake(woken);
    }

    fn wake(&mut self, woken: impl IntoIterator<Item = SleeperId>) {
        for SleeperId(key) in woken {
            let of = usize::try_from(key / 10).expect("the number of a participant");
            self.participants[of].woken = true;
        }
    }

    fn poll(&mut self, of: usize, until: Option<Instant>) {
        let Some(device) = self.level(of).device else { unreachable!("it waits for one") };
        let now = moment(self.now);
        self.look(device);
        self.participants[of].woken = false;
        let key = self.key(of);
        let standing = self.states[device].claim(key);
        let granted = self.twins[device].claim(of);
        assert_eq!(matches!(standing, Standing::Granted(_)), granted, "{of} {self:#?}");
        let late = until.is_some_and(|until| now >= until);
        match standing {
            Standing::Granted(begun) => self.runs(of, device, Some(begun), begun.seen),
            Standing::Waits { look_at } if !self.participants[of].cancelled => {
                assert!(!late, "{of} waits beyond its bound: {self:#?}");
                self.participants[of].look_at = look_at;
            }
            _ => {
                if late {
                    let bound = self.participants[of].plan.bound.unwrap_or(0);
                    let no_wait_until = moment(self.now + 10 * u32::from(bound));
                    self.states[device].waited_in_vain(no_wait_until);
                    self.twins[device].waited_in_vain(no_wait_until);
                }
                self.withdraw(of, device);
                (self.call(of).exclusive, self.call(of).after_contention) = (0, false);
                self.begin_beside(of, device);
                self.look(device);
            }
        }
    }

    fn withdraw(&mut self, of: usize, device: usize) {
        let key = self.key(of);
        self.states[device].withdraw(key);
        self.twins[device].withdraw(of);
    }

    fn allocate(&mut self, of: usize) {
        let Level { holds, device, .. } = self.level(of);
        let fits = device.is_none_or(|device| holds <= self.free(device));
        let call = self.call(of);
        if fits {
            call.holds = holds;
            self.go_inside(of);
        } else {
            call.stage = Stage::Failed;
        }
    }

    fn go_inside(&mut self, of: usize) {
        let Participant { plan, calls, .. } = &self.participants[of];
        match plan.levels.get(calls.len()).copied() {
            Some(inner) => {
                self.call(of).stage = Stage::Inside;
                self.participants[of].calls.push(Call::new(inner));
            }
            None => self.call(of).stage = Stage::Done,
        }
    }

    /// A marked attempt has failed whatever its body returned.
    fn end_of_body(&mut self, of: usize) {
        let device = self.level(of).device;
        let turn = self.call(of).turn;
        if let (Some(device), Some(turn)) = (device, turn)
            && self.states[device].is_marked(turn.id)
        {
            return self.fail(of);
        }
        self.succeed(of);
    }

    fn end_turn(&mut self, of: usize, device: usize) {
        if let Some(turn) = self.call(of).turn.take() {
            self.states[device].end(turn.id);
            self.twins[device].end(of);
        }
    }

    fn succeed(&mut self, of: usize) {
        let call = self.call(of);
        call.exclusive = call.exclusive.saturating_sub(1);
        if mem::take(&mut call.after_contention) {
            call.spell = (call.spell * 2).clamp(1, 4);
            call.exclusive = call.spell;
        }
        (call.holds, call.is_open, call.repeated, call.seen) = (0, false, false, None);
        (call.stage, call.pieces) = (Stage::Between, call.pieces - 1);
        if let Some(device) = self.level(of).device {
            self.end_turn(of, device);
            self.look(device);
        }
        if self.call(of).pieces == 0 {
            self.end(of, true);
        }
    }

    /// The values of the attempt are dropped, and what it has done is undone.
    fn fail(&mut self, of: usize) {
        self.call(of).holds = 0;
        let Some(device) = self.level(of).device else { return self.end(of, false) };
        let call = self.call(of);
        let (seen, met, turn) = (call.seen.expect("it has begun"), call.met, call.turn);
        let marked = turn.is_some_and(|turn| self.states[device].is_marked(turn.id));
        let contention = self.states[device].has_contention(seen);
        assert_eq!(contention, met, "{of} {self:#?}");
        assert!(contention || !marked, "{self:#?}");
        let wait = self.waits_at_most(of, device).filter(|_| self.enclosing(of).next().is_none());
        match (turn, wait) {
            (Some(Admitted { id, kind: Shared, .. }), Some(bound)) if contention => {
                self.states[device].end(id);
                self.twins[device].end(of);
                let call = self.call(of);
                (call.turn, call.is_open, call.seen, call.after_contention) = (None, false, None, true);
                self.queue(of, device, Exclusive, bound);
            }
            (Some(Admitted { id, kind: Exclusive, .. }), _) if contention && !self.call(of).repeated => {
                self.states[device].unmark(id);
                let seen = self.states[device].seen();
                let met = self.twins[device].others(of) > 0;
                let call = self.call(of);
                (call.repeated, call.seen, call.met, call.stage) = (true, Some(seen), met, Stage::Admitted);
            }
            _ => {
                if let Some(promised) = self.promised_on(of, device).filter(|_| turn.is_none() && contention)
                {
                    self.states[device].mark(promised);
                }
                self.end_turn(of, device);
                self.look(device);
                self.end(of, false);
            }
        }
    }

    /// The call is over, and the attempt around it goes on.
    fn end(&mut self, of: usize, succeeded: bool) {
        self.give_back(of);
        let participant = &mut self.participants[of];
        participant.calls.pop();
        let level = participant.calls.len().checked_sub(1).map(|at| participant.plan.levels[at]);
        match (participant.calls.last_mut(), level) {
            (Some(outer), Some(level)) => {
                let goes_on = succeeded || level.swallows;
                outer.stage = if goes_on { Stage::Done } else { Stage::Failed };
            }
            _ => participant.gave_up = !succeeded,
        }
    }

    /// Drops what the task is in the middle of, from the inside out.
    fn drop(&mut self, of: usize) {
        while let Some(call) = self.participants[of].calls.last() {
            let (stage, device) = (call.stage, self.level(of).device);
            self.call(of).holds = 0;
            if let Some(device) = device {
                match stage {
                    Stage::Waits(_) => self.withdraw(of, device),
                    Stage::Reserves(_) => self.leave_ledger(of),
                    _ => {}
                }
                self.end_turn(of, device);
                self.look(device);
            }
            self.give_back(of);
            self.participants[of].calls.pop();
        }
        self.participants[of].gave_up = true;
    }

    /// What is always so.
    fn check(&self) {
        for (state, twin) in self.states.iter().zip(&self.twins) {
            assert_eq!(state.running, twin.running(), "{self:#?}");
            assert_eq!(state.waiting(), twin.waiting(), "{self:#?}");
            assert_eq!(state.is_in_vain(), twin.is_in_vain(), "{self:#?}");
            twin.check();
        }
        for of in 0..self.participants.len() {
            let granted = self.waits(of)
                && self.level(of).device.is_some_and(|device| self.twins[device].is_granted(of));
            assert!(!granted || self.can_step(of), "{of} was not woken: {self:#?}");
        }
        if self.is_over() {
            assert!(self.states.iter().all(QueueState::is_empty), "left behind: {self:#?}");
            assert!(self.ledgers.iter().all(Ledger::is_empty), "left behind: {self:#?}");
        }
    }
}
