//! What a call has besides that takes more of the ladder than a smaller size: its seat at the device
//! and what it knows of the others there. Calls that have none of it never come past the first line of
//! these.

mod waiting;

use std::time::{Duration, Instant};

use super::{Call, Options};
use crate::classify::{Class, Failure};
use crate::clock;
use crate::engine::checked_policy::CheckedPolicy;
use crate::engine::company::Company;
use crate::engine::machine::{Failed, Rungs, Took, Verdict};
use crate::engine::meter::Measured;
use crate::engine::turns::{Patience, Turns};
use crate::ladder::{self, Ladder, Pressure, Rung};
use crate::memory::Reading;
use crate::nesting::Surroundings;
use crate::observe::Reason;
use crate::policy::Policy;
use crate::share::{Cancel, Seat};
use crate::shield::{self, Panic, Retryable};

/// See the module.
pub(super) struct Sharing<'a> {
    ladder: Ladder<'a>,
    /// None where there is no device to share, and none any more once the call has fallen back.
    seat: Option<Seat>,
    turns: Turns,
    patience: Patience,
    /// Where the coming attempt is made an executor is held up: it may have to go on with the very task that
    /// would be waited for.
    held_up: bool,
    /// The coming attempt, or the one that runs, has the device to itself.
    alone: Option<Alone>,
    /// Others ran as the attempt began, where that matters to what is measured.
    ran_among_others: bool,
    company: Company,
    nesting: Nesting,
    /// A failure that the hooks are to be asked about.
    asks: Option<Asks>,
}

/// Why an attempt has its device to itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    /// It has failed among others.
    AfterFailure,
    /// Others of the call have.
    InTurn,
}

/// Who waits for others where attempts are nested, settled before one begins.
#[derive(Clone, Copy, Default)]
struct Nesting {
    /// The attempt is made anew, alone, if others are in its way: loops in it rely on that.
    promises: bool,
    /// The attempt around is made anew, alone, where others are in the way of this one.
    has_promise: bool,
    /// Others held memory of the device as the attempt began, where it has to be known.
    had_holders: bool,
}

#[derive(Clone, Copy)]
struct Asks {
    class: Class,
    requested_bytes: Option<u64>,
    now: Option<Reading>,
    elapsed: Option<Duration>,
    measured: Option<Measured>,
    gives_way: bool,
}

impl<'a> Sharing<'a> {
    /// Of a call with these options.
    #[inline(never)]
    pub(super) fn of(options: &Options<'a>, has_fallen_back: bool) -> Self {
        let ladder = options.ladder.unwrap_or_default();
        let seat = options.device.filter(|_| !has_fallen_back).map(Seat::at);
        Self {
            ladder,
            seat,
            turns: Turns::default(),
            patience: Patience::default(),
            held_up: false,
            alone: None,
            ran_among_others: false,
            company: Company::default(),
            nesting: Nesting::default(),
            asks: None,
        }
    }

    pub(super) fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    fn is_cancelled(&self) -> bool {
        self.ladder.cancel.is_some_and(Cancel::is_cancelled)
    }

    /// How long the call waits for others now, if it does.
    fn waits_at_most(&self) -> Option<Duration> {
        let is_patient = || {
            self.patience.is_left(clock::now)
                && self.seat.as_ref().is_none_or(|seat| seat.has_patience(clock::now))
        };
        self.ladder.wait.filter(|_| !self.held_up && is_patient())
    }

    fn waited_in_vain(&mut self, since: Instant, long: Duration) {
        self.patience.waited_in_vain(since, long);
        if let Some(seat) = &self.seat {
            seat.waited_in_vain(since, long);
        }
    }

    /// Whether it is better that the attempt around waits for others than that the call goes on without what
    /// has failed, or elsewhere.
    fn gives_way(&self) -> bool {
        self.nesting.has_promise && (self.nesting.had_holders || self.runs_among_others())
    }

    fn runs_among_others(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.others() > 0)
    }

    /// Whether the attempt that has failed may have done so because of others.
    fn had_company(&self) -> bool {
        self.alone.is_none() && self.seat.as_ref().is_some_and(|seat| self.company.has_come(seat))
    }

    /// The rungs that are there, given whether others work on the device.
    fn rungs(&self, company: bool) -> Rungs {
        let Ladder { release, hooks, fallback, .. } = self.ladder;
        Rungs::NONE
            .with(Rungs::RELEASE, release && self.seat.is_some())
            .with(Rungs::ALONE, company && (self.nesting.promises || self.waits_at_most().is_some()))
            .with(Rungs::HOOKS, hooks && ladder::is_registered())
            .with(Rungs::FALLBACK, fallback)
    }
}

impl<P: Policy> Call<'_, P> {
    /// What can be said of the rungs before the attempt begins.
    pub(super) fn expect_rungs(&mut self) {
        let measures = self.meters();
        // There it must be known whether a failure will be tried again.
        let at_the_floor = self.machine.is_at_the_floor();
        let Some(sharing) = &mut self.sharing else { return };
        if !self.machine.is_elsewhere() {
            let seat = sharing.seat.as_ref().filter(|_| sharing.alone.is_none());
            let company = seat.is_some_and(|seat| sharing.company.look(seat, at_the_floor));
            sharing.ran_among_others = measures && sharing.alone.is_none() && sharing.runs_among_others();
            self.machine.expect(sharing.rungs(company));
        }
    }

    /// Where the attempt that begins works, if that is not where the call was made: for its body and all
    /// that runs while it has its seat, so that loops in there belong to it.
    #[inline]
    pub(crate) fn surroundings(&self) -> Option<Surroundings> {
        if self.plain { None } else { self.own_surroundings() }
    }

    #[inline(never)]
    fn own_surroundings(&self) -> Option<Surroundings> {
        let outer = Surroundings::now();
        let Some(sharing) = &self.sharing else {
            // It works where it was called, and may hold up a task there like any other.
            return outer.marks.polled().then(|| outer.of_loop());
        };
        let is_elsewhere = self.machine.is_elsewhere();
        let node = sharing.seat.as_ref().filter(|_| !is_elsewhere).map(Seat::node);
        let marks = outer.marks.falling_back(is_elsewhere);
        let anew = node.filter(|_| sharing.nesting.promises).or(outer.anew);
        Some(Surroundings { marks, node: node.or(outer.node), anew }.of_loop())
    }

    /// Nothing is asked of the call until it [goes on](Self::go_on).
    #[inline]
    pub(crate) fn rest(&self) {
        if !self.plain
            && let Some(Sharing { seat: Some(seat), .. }) = &self.sharing
        {
            seat.rest();
        }
    }

    /// The call is asked for more. Where that is a fallback, it stays in it to its end.
    #[inline]
    pub(crate) fn go_on(&mut self) {
        if !self.plain || Surroundings::now().marks.anything() {
            self.go_on_here();
        }
    }

    #[inline(never)]
    fn go_on_here(&mut self) {
        let marks = Surroundings::now().marks;
        // What it holds up has to be known in its attempts.
        self.plain &= !marks.polled();
        if marks.falls_back() {
            self.machine.learn_nothing();
            self.sharing.iter_mut().for_each(|sharing| sharing.seat = None);
        }
        if let Some(Sharing { seat: Some(seat), .. }) = &self.sharing {
            seat.go_on();
        }
    }

    /// The attempt succeeded, and others may have the device.
    pub(super) fn leave_done(&mut self) {
        let Some(sharing) = &mut self.sharing else { return };
        match sharing.alone.take() {
            Some(Alone::AfterFailure) => sharing.turns.failed_among_others(),
            Some(Alone::InTurn) => sharing.turns.taken(),
            None => {}
        }
        sharing.patience.piece_done();
        if let Some(seat) = &sharing.seat {
            seat.leave();
            seat.next_piece();
        }
    }

    /// The rungs that are there after a failure.
    pub(super) fn rungs(&self) -> Rungs {
        match &self.sharing {
            Some(sharing) if !self.machine.is_elsewhere() => sharing.rungs(sharing.had_company()),
            _ => Rungs::NONE,
        }
    }

    /// The same, and what is there below them for a failure that can go through. A panic can where the attempt
    /// around keeps it from being printed.
    pub(super) fn rungs_below(&self, panic: Option<&Panic>) -> Rungs {
        let is_heard = panic.is_none() || shield::would_retry().out_of_memory;
        self.rungs().with(Rungs::GIVE_WAY, is_heard && self.sharing.as_ref().is_some_and(Sharing::gives_way))
    }

    /// Takes the rung that was decided on, as far as it can be taken before the failure is gone.
    pub(super) fn take_rung(&mut self, verdict: Verdict, failed: &Failed<'_>) {
        let Some(sharing) = &mut self.sharing else { return };
        match (verdict, &sharing.seat) {
            // What goes through is the caller's.
            (Verdict::GiveUp(_), Some(seat)) => seat.leave(),
            (Verdict::SetAside { .. } | Verdict::FallBackAlone { .. }, Some(seat)) => {
                sharing.patience.piece_done();
                seat.next_piece();
            }
            _ => {}
        }
        sharing.alone = (verdict == Verdict::Again(Rung::Alone)).then_some(Alone::AfterFailure);
        sharing.company = Company::default();
        if verdict == Verdict::Again(Rung::Hooks) {
            let &Failed { failure, now, took: Took { elapsed, measured }, .. } = failed;
            let (&Failure { class, requested_bytes, .. }, measured) = (failure, measured.copied());
            let gives_way = failed.there.has(Rungs::GIVE_WAY);
            sharing.asks = Some(Asks { class, requested_bytes, now, elapsed, measured, gives_way });
        }
    }

    /// The failed attempt's memory is back: others may have the device, and hooks are asked.
    pub(super) fn leave_failed(&mut self) {
        let Some(sharing) = &mut self.sharing else { return };
        if let Some(seat) = &sharing.seat {
            seat.leave();
        }
        if self.machine.has_fallen_back() {
            sharing.seat = None;
        }
        if let Some(asks) = sharing.asks.take() {
            self.ask(asks);
        }
    }

    fn ask(&mut self, asks: Asks) {
        let Asks { class, requested_bytes, now, elapsed, measured, gives_way } = asks;
        let failure = &Failure::new(class, "").requesting(requested_bytes);
        let pressure = Pressure {
            device: self.memory.source().name(),
            requested_bytes,
            free_bytes: now.map(|now| now.free_bytes),
            size: self.machine.size(),
        };
        if ladder::ask(&pressure) {
            return;
        }
        let (size, there) = (self.machine.size(), self.rungs().with(Rungs::GIVE_WAY, gives_way));
        let took = Took { elapsed, measured: measured.as_ref() };
        let failed = Failed { failure, now, took, there };
        let asked = CheckedPolicy { policy: &self.policy, by: self.tally.name() };
        if let Some(verdict) = self.machine.hooks_gave_nothing(&asked, &failed) {
            self.tell_verdict(size, verdict);
        }
        if self.machine.has_fallen_back()
            && let Some(sharing) = &mut self.sharing
        {
            sharing.seat = None;
        }
    }

    /// Whether others may be counted in what was measured of the attempt.
    pub(super) fn is_among_others(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.ran_among_others || sharing.runs_among_others())
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.sharing.as_ref().is_some_and(Sharing::is_cancelled)
    }

    /// Why no retry may start any more.
    pub(super) fn is_over(&self, retryable: Retryable) -> Option<Reason> {
        if self.is_cancelled() {
            return Some(Reason::Cancelled);
        }
        // What the machine would retry and the attempt was not promised began too late.
        let began_late = retryable == Retryable::NOTHING && self.machine.retryable() != Retryable::NOTHING;
        (began_late || self.is_late()).then_some(Reason::Deadline)
    }
}
