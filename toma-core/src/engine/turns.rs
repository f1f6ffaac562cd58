//! How a call comes to its turns on the device, and what contention means to it.
//!
//! # Why
//!
//! At the floor the exclusive rung is promised only once two turns have overlapped on the device. A
//! promised failure loses its place and its backtrace, also in a program of one thread. The price: a panic
//! in the first contention goes through.
//!
//! Between its attempts a call is inside the turn it keeps. Hooks and observers that run a loop on the
//! device would otherwise wait for their own call.
//!
//! One attempt follows a wait that was cut off, with no retry promised. The failure before is gone: it was
//! dropped so that others get its memory. An async task may not hold it across an await either.

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
    /// What the coming attempt starts with.
    next: Next<'a>,
    /// The attempt that runs has an exclusive turn because it failed under contention.
    after_contention: bool,
    /// The coming attempt waits for the device, and may queue again: nothing that holds a turn waits, and no loop
    /// that would block a poll. Asked once per attempt, because it is promised to loops inside.
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
    /// An exclusive turn is asked for when the attempt begins.
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

    /// Those of a call without a device, and without any rung.
    #[inline]
    pub(super) fn none() -> Self {
        Self::new(None, Ladder::none(), None)
    }

    /// From here on the call works in fallback.
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

    /// Takes a turn, or begins to wait for one. `polled`: a wait of this kind would hold up the task that polls.
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

    /// Whether the call waits for its device now.
    fn has_patience(&self) -> bool {
        let of_device = |device: &Device| device.has_patience(clock::now);
        self.ladder.wait.is_some() && self.device.as_ref().is_some_and(of_device)
    }

    fn bounds(&self) -> WaitBounds<'a> {
        let Ladder { wait, cancel, .. } = self.ladder;
        WaitBounds { at_most: wait.unwrap_or_default(), deadline: self.deadline, cancel }
    }

    /// Where the attempt's work is done. `retries`: the attempt may be retried, so that it promises loops inside
    /// to be redone exclusively after contention.
    #[inline]
    pub(super) fn nest(&self, hold: &Hold, retries: bool, nesting: &mut Nesting) {
        if let Hold::Turn(turn) = hold {
            turn.enclose(&mut nesting.enclosing, retries && !turn.is_exclusive() && self.willing);
        }
    }

    /// The rungs there are; `contended`: whether others used the device meanwhile, or may do so.
    pub(super) fn rungs(&self, contended: bool) -> Rungs {
        let Ladder { release, hooks, fallback, .. } = self.ladder;
        Rungs::NONE
            .with(Rungs::RELEASE, release && self.device.is_some())
            .with(Rungs::EXCLUSIVE, contended && self.willing)
            .with(Rungs::HOOKS, hooks && device::is_registered())
            .with(Rungs::FALLBACK, fallback)
    }

    /// The rungs there are before the attempt with this hold begins.
    pub(super) fn expected_rungs(&self, hold: &Hold) -> Rungs {
        self.rungs(matches!(hold, Hold::Turn(turn) if turn.may_be_contended()))
    }

    /// The rungs there are once it has failed.
    ///
    /// Under the promise of an enclosing attempt on the device a contended failure gives way.
    pub(super) fn rungs_after(&self, attempt: &Attempt) -> Rungs {
        let contended = attempt.hold.is_contended();
        self.rungs(contended).with(Rungs::GIVE_WAY, contended && self.promised.is_some())
    }

    /// The attempt failed, and its values are still there.
    pub(super) fn after_failure(&mut self, hold: &Hold, answer: Answer) {
        match answer {
            Answer::GiveUp(Reason::GaveWay) => self.give_way(),
            Answer::LeaveOut { .. } => self.piece_done(hold),
            _ => {}
        }
    }

    /// The enclosing attempt that has promised it counts as failed from now on.
    fn give_way(&self) {
        if let (Some(device), Some(turn)) = (&self.device, self.promised) {
            device.mark(turn);
        }
    }

    /// The attempt has succeeded, or its piece is given up.
    pub(super) fn piece_done(&mut self, hold: &Hold) {
        if mem::take(&mut self.after_contention) {
            self.backoff.begin();
        } else if hold.is_exclusive() {
            self.backoff.piece_done();
        }
    }

    /// The failed attempt's memory is back: queues for an exclusive turn, keeps one for the next attempt at the
    /// piece, or gives the turn back.
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

    /// The same where ranks vote before the next attempt: while they do, nothing is held that one of them may wait for.
    pub(super) fn release_before_vote(&mut self, hold: &Hold, answer: Answer) {
        let contended = answer == Answer::Again(Rung::Exclusive) && self.has_patience();
        let keeps = matches!(answer, Answer::Again(_) | Answer::Shrink(_)) && hold.is_exclusive();
        self.after_contention |= contended;
        self.next = if contended || keeps { Next::Alone } else { Next::Nothing };
    }

    /// While the guard lives, loops on this thread do not wait for what the call keeps for its next attempt.
    #[inline]
    pub(super) fn aside(&self) -> Inside {
        Inside::of(match &self.next {
            Next::Nothing | Next::Alone => None,
            Next::Keep(turn) => Some(turn.around()),
            Next::Queued(_) => Some(Nesting::now().of_queued()),
        })
    }

    /// A wait has ended, without the exclusive turn it may have been for.
    pub(super) fn waited(&mut self, how: How) {
        self.after_contention &= how == How::InTurn;
    }
}
