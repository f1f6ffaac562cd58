//! Waiting for one's turn, by a thread or by a task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::Cancel;
use super::arbiter::Kind;
use super::cancel::Registered;
use super::seat::Seat;
use super::slots::Node;
use super::wait::{self, Wait};
use super::watchdog::Alarm;
use crate::clock;

/// What ends a wait, whichever comes first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds<'a> {
    /// A moment of the engine's clock. What is left until then passes in real time, even where a test
    /// holds the clock. `None`: no bound.
    pub(crate) until: Option<Instant>,
    pub(crate) cancel: Option<&'a Cancel>,
}

/// How a wait ended. The attempt has entered in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// In its turn, and alone when that was asked for.
    Yes,
    /// Among others, because the bound has passed.
    TimedOut,
    /// Among others, because nobody wants the call to wait.
    Cancelled,
}

/// A wait for one's turn; see [`Seat::admission`].
#[must_use = "waits only when it is polled or waited for"]
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    seat: &'a Seat,
    kind: Kind,
    parent: Option<Node>,
    stage: Stage,
    until: Option<Instant>,
    cancel: Option<Registered<'a>>,
    alarm: Option<Alarm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    New,
    Queued,
    /// Whoever asked answers for the attempt now.
    Entered,
}

impl<'a> Admission<'a> {
    pub(super) fn new(seat: &'a Seat, kind: Kind, parent: Option<Node>, bounds: Bounds<'a>) -> Self {
        let Bounds { until, cancel } = bounds;
        let until = until.and_then(|until| Instant::now().checked_add(until - clock::now()));
        let cancel = cancel.map(Registered::new);
        Self { seat, kind, parent, stage: Stage::New, until, cancel, alarm: None }
    }

    /// Blocks the thread until it is ready.
    pub(crate) fn wait(mut self) -> Admitted {
        wait::block(&mut self)
    }

    fn barge_in(&self, because: Admitted) -> Admitted {
        let Seat { hub, slot, device } = *self.seat;
        if hub.barge_in(slot, device) && because == Admitted::TimedOut { Admitted::Yes } else { because }
    }
}

impl Wait for Admission<'_> {
    type Output = Admitted;

    fn look(&mut self, waker: &Waker) -> Option<Admitted> {
        let Seat { hub, slot, device } = *self.seat;
        if self.stage == Stage::New {
            hub.join(slot, device, self.kind, self.parent);
            self.stage = Stage::Queued;
        }
        let cancelled = self.cancel.as_ref().is_some_and(|cancel| !cancel.register(waker));
        let admitted = if cancelled {
            self.barge_in(Admitted::Cancelled)
        } else if hub.is_admitted(slot, waker) {
            Admitted::Yes
        } else if self.until.is_some_and(|until| Instant::now() >= until) {
            self.barge_in(Admitted::TimedOut)
        } else {
            return None;
        };
        (self.stage, self.cancel, self.alarm) = (Stage::Entered, None, None);
        self.seat.visit(self.parent);
        Some(admitted)
    }

    fn look_again_at(&self) -> Option<Instant> {
        self.until
    }

    fn alarm(&mut self) -> &mut Option<Alarm> {
        &mut self.alarm
    }
}

impl Future for Admission<'_> {
    type Output = Admitted;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Admitted> {
        wait::poll(self.get_mut(), context)
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if self.stage == Stage::Queued {
            self.seat.hub.withdraw(self.seat.slot);
        }
    }
}
