//! Turns of a call on its device, and its handling of contention.
//!
//! # Why
//!
//! At the floor the exclusive rung is promised only once two turns have overlapped on the device. The panic of a
//! promised failure loses its location and its backtrace, also in a program of one thread. The price: a panic in the
//! first contention is passed on.
//!
//! Between its attempts a call counts as inside the turn it keeps. Otherwise hooks and observers that run a loop on
//! the device would wait for their own call.
//!
//! One attempt follows a wait that was cut off, with no retry promised. The failure before it cannot be passed on,
//! because it was dropped so that others get its memory. An async task may not hold it across an await either.

use std::mem;
use std::time::Instant;

use super::attempt::Attempt;
use super::backoff::Backoff;
use super::hold::Hold;
use super::rungs::Rungs;
use crate::clock;
use crate::device::{self, Cancel, Device, How, Ladder, Rung, Turn, TurnKind, WaitBounds, Waiting};
use crate::nesting::{Inside, Nesting, TurnId};
use crate::observe::{Answer, Reason};

/// The turns of one call.
#[derive(Debug)]
pub(super) struct Turns<'a> {
    /// `None` without the option `device`, and once the call works in fallback.
    pub(super) device: Option<Device>,
    ladder: Ladder<'a>,
    deadline: Option<Instant>,
    backoff: Backoff,
    /// Turn or wait with which the next attempt begins.
    next: Next<'a>,
    /// True if the current attempt has an exclusive turn because it failed under contention.
    after_contention: bool,
    /// True if the next attempt may wait for the device. Attempts that hold a turn never wait, nor do loops that
    /// would block a poll. Decided once per attempt, because it is promised to loops inside.
    willing: bool,
    /// The turn of an enclosing attempt that will be redone after contention on this device.
    promised: Option<TurnId>,
}

#[derive(Debug)]
enum Next<'a> {
    Nothing,
    /// An exclusive turn lasts until its piece is done.
    Keep(Turn),
    /// The last attempt failed under contention. In a box: most attempts wait for nothing.
    Queued(Box<Waiting<'a>>),
    /// An exclusive turn is requested when the attempt begins.
    Alone,
}

impl<'a> Turns<'a> {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "built where it stays")]
    pub(super) fn new(device: Option<Device>, ladder: Ladder<'a>, deadline: Option<Instant>) -> Self {
        Self {
            device,
            ladder,
            deadline,
            backoff: Backoff::default(),
            next: Next::Nothing,
            after_contention: false,
            willing: false,
            promised: None,
        }
    }

    /// Turns of a call without a device and without any rung.
    #[inline]
    pub(super) fn none() -> Self {
        Self::new(None, Ladder::none(), None)
    }

    /// Switches the call to fallback.
    pub(super) fn fall_back(&mut self) {
        (self.device, self.next) = (None, Next::Nothing);
        (self.willing, self.promised) = (false, None);
    }

    #[inline]
    pub(super) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::now() >= deadline)
    }

    #[inline]
    pub(super) fn is_cancelled(&self) -> bool {
        self.ladder.cancel.is_some_and(Cancel::is_cancelled)
    }

    /// Takes a turn, or begins to wait for one. `polled`: a wait of this kind would hold up the task that is polled.
    #[inline]
    pub(super) fn take(&mut self, polled: bool, hold: &mut Hold) -> Option<Box<Waiting<'a>>> {
        let device = self.device.as_ref()?;
        let outer = Nesting::now().enclosing;
        self.promised = outer.promised_on(device.id());
        self.willing = !polled && !outer.holds_any() && self.has_patience();
        let is_alone = matches!(self.next, Next::Alone);
        if !is_alone && !matches!(self.next, Next::Nothing) {
            return self.go_on(hold);
        }
        self.next = Next::Nothing;
        if outer.holds(device.id()) {
            *hold = Hold::Enclosed(device.clone(), device.seen());
            return None;
        }
        let exclusive = self.willing && (is_alone || self.backoff.lasts());
        let shared = if exclusive || outer.holds_any() { None } else { device.try_shared() };
        *hold = match shared {
            Some(turn) => Hold::Turn(turn),
            None if !self.willing => Hold::Turn(device.begin_beside()),
            None => {
                let kind = if exclusive { TurnKind::Exclusive } else { TurnKind::Shared };
                return Some(Box::new(device.wait_for(kind, self.bounds())));
            }
        };
        None
    }

    #[cold]
    fn go_on(&mut self, hold: &mut Hold) -> Option<Box<Waiting<'a>>> {
        match mem::replace(&mut self.next, Next::Nothing) {
            Next::Queued(waiting) => return Some(waiting),
            Next::Nothing | Next::Alone => {}
            Next::Keep(mut turn) => {
                turn.renew();
                *hold = Hold::Turn(turn);
            }
        }
        None
    }

    /// True if the call may wait for its device now.
    fn has_patience(&self) -> bool {
        let of_device = |device: &Device| device.has_patience(clock::now);
        self.ladder.wait.is_some() && self.device.as_ref().is_some_and(of_device)
    }

    fn bounds(&self) -> WaitBounds<'a> {
        let Ladder { wait, cancel, .. } = self.ladder;
        WaitBounds { at_most: wait.unwrap_or_default(), deadline: self.deadline, cancel }
    }

    /// Nests the attempt's work in its turn. `retries`: the attempt may be retried, so it promises loops inside that
    /// it will be redone exclusively after contention.
    #[inline]
    pub(super) fn nest(&self, hold: &Hold, retries: bool, nesting: &mut Nesting) {
        if let Hold::Turn(turn) = hold {
            turn.enclose(&mut nesting.enclosing, retries && !turn.is_exclusive() && self.willing);
        }
    }

    /// Returns the available rungs. `contended`: others used the device during the attempt, or may do so.
    pub(super) fn rungs(&self, contended: bool) -> Rungs {
        let Ladder { release, hooks, fallback, .. } = self.ladder;
        Rungs::NONE
            .with(Rungs::RELEASE, release && self.device.is_some())
            .with(Rungs::EXCLUSIVE, contended && self.willing)
            .with(Rungs::HOOKS, hooks && device::is_registered())
            .with(Rungs::FALLBACK, fallback)
    }

    /// Rungs that are available before the attempt with this hold begins.
    pub(super) fn expected_rungs(&self, hold: &Hold) -> Rungs {
        self.rungs(matches!(hold, Hold::Turn(turn) if turn.may_be_contended()))
    }

    /// Rungs that are available after the attempt has failed.
    ///
    /// A contended failure gives way if an enclosing attempt on the device has promised to be redone.
    pub(super) fn rungs_after(&self, attempt: &Attempt) -> Rungs {
        let contended = attempt.hold.is_contended();
        self.rungs(contended).with(Rungs::GIVE_WAY, contended && self.promised.is_some())
    }

    /// Records a failed attempt and the answer, while the failed values are still alive.
    pub(super) fn after_failure(&mut self, hold: &Hold, answer: Answer) {
        match answer {
            Answer::GiveUp(Reason::GaveWay) => self.give_way(),
            Answer::LeaveOut { .. } => self.piece_done(hold),
            _ => {}
        }
    }

    /// Marks the enclosing attempt that has promised to be redone if it fails.
    fn give_way(&self) {
        if let (Some(device), Some(turn)) = (&self.device, self.promised) {
            device.mark(turn);
        }
    }

    /// Records that the attempt has succeeded, or that its item is left out.
    pub(super) fn piece_done(&mut self, hold: &Hold) {
        if mem::take(&mut self.after_contention) {
            self.backoff.begin();
        } else if hold.is_exclusive() {
            self.backoff.piece_done();
        }
    }

    /// Queues for an exclusive turn, keeps one for the next attempt at the piece, or ends the turn. The failed
    /// attempt's memory is free by now.
    pub(super) fn release(&mut self, hold: Hold, answer: Answer) {
        self.next = match (hold, answer) {
            (Hold::Turn(turn), Answer::Again(Rung::Exclusive)) if self.has_patience() => {
                self.after_contention = true;
                Next::Queued(Box::new(turn.exclusive_again(self.bounds())))
            }
            (Hold::Turn(_), Answer::Again(Rung::Exclusive)) => Next::Nothing,
            (Hold::Turn(turn), Answer::Again(_) | Answer::Shrink(_)) if turn.is_exclusive() => {
                Next::Keep(turn)
            }
            _ => Next::Nothing,
        };
    }

    /// Chooses the next turn where ranks vote first. No turn is held during a vote, because another rank may wait for
    /// it.
    pub(super) fn release_before_vote(&mut self, hold: &Hold, answer: Answer) {
        let contended = answer == Answer::Again(Rung::Exclusive) && self.has_patience();
        let keeps = matches!(answer, Answer::Again(_) | Answer::Shrink(_)) && hold.is_exclusive();
        self.after_contention |= contended;
        self.next = if contended || keeps { Next::Alone } else { Next::Nothing };
    }

    /// Until the guard is dropped, loops on this thread do not wait for the turn that the call keeps for its next
    /// attempt.
    #[inline]
    pub(super) fn aside(&self) -> Inside {
        let nesting = match &self.next {
            Next::Nothing | Next::Alone => None,
            Next::Keep(turn) => Some(turn.around()),
            Next::Queued(_) => Some(Nesting::now().of_queued()),
        };
        Inside::of(nesting.as_ref())
    }

    /// Records the end of a wait, which may not have brought the exclusive turn that it was for.
    pub(super) fn waited(&mut self, how: How) {
        self.after_contention &= how == How::InTurn;
    }
}
