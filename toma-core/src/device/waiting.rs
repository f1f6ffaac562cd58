//! Waiting for a turn, by a thread or by a task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::Cancel;
use super::cancel::Registered;
use super::queue::{Standing, State, Ticket};
use super::turn::{Device, Turn};
use super::wait::{self, Wait, wake};
use super::watchdog::Alarm;
use crate::engine::clock;

/// For so many times a wait in vain the device is not waited for: such waits take a small share of the
/// time.
const NO_WAIT: u32 = 10;

/// What ends a wait, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds<'a> {
    /// The bound, in real time even where a test holds the engine's clock. A wait that lasts so long is in
    /// vain.
    pub(crate) at_most: Duration,
    /// A moment of the engine's clock; what is left until then passes in real time.
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<&'a Cancel>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The turn was granted.
    InTurn,
    /// The bound or the deadline has passed: the attempt begins beside the others.
    TimedOut,
    /// The call was cancelled: the attempt begins beside the others.
    Cancelled,
}

/// A wait for a turn: a future, or [`wait`](Self::wait) for a thread.
///
/// It is in the queue from the beginning. Dropped before it is ready, it leaves the queue, and passes on a
/// turn that was granted.
#[must_use = "waits only when it is polled or waited for"]
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    device: Device,
    /// The entry in the queue, until the wait has ended.
    ticket: Option<Ticket>,
    until: Option<Instant>,
    /// The bound, where it comes before the deadline.
    at_most: Option<Duration>,
    cancel: Option<Registered<'a>>,
    look_at: Option<Instant>,
    alarm: Option<Alarm>,
}

impl<'a> Waiting<'a> {
    /// A wait for the entry that `queue` makes, under one lock.
    #[cold]
    pub(super) fn new(
        device: Device,
        bounds: Bounds<'a>,
        queue: impl FnOnce(&mut State<Waker>, Option<Instant>) -> Ticket,
    ) -> Self {
        let Bounds { at_most, deadline, cancel } = bounds;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
        let now = Instant::now();
        let until = now.checked_add(left.map_or(at_most, |left| left.min(at_most)));
        let at_most = Some(at_most).filter(|at_most| left.is_none_or(|left| *at_most <= left));
        let cancel = cancel.map(Registered::new);
        let mut state = device.queue.state.lock_own();
        let ticket = queue(&mut state, until);
        let woken = state.look(now);
        drop(state);
        wake(woken);
        Self { device, ticket: Some(ticket), until, at_most, cancel, look_at: None, alarm: None }
    }

    /// Blocks the thread until it is ready.
    pub(crate) fn wait(mut self) -> (Turn, How) {
        wait::block(&mut self)
    }

    /// Looks whether the turn was granted; if not, `waker` is told.
    fn look_in_queue(&mut self, ticket: Ticket, waker: &Waker) -> Standing {
        let (now, waker) = (Instant::now(), waker.clone());
        let mut state = self.device.queue.state.lock_own();
        // The wait itself needs no waking now.
        let before = state.set_waker(ticket, None);
        let woken = state.look(now);
        let standing = state.claim(ticket);
        let unused = state.set_waker(ticket, Some(waker));
        drop(state);
        wake(woken);
        drop((before, unused));
        standing
    }

    /// Ends the wait without a turn, and begins one beside the others.
    fn give_up(&mut self, ticket: Ticket, how: How) -> (Turn, How) {
        let vain = self.at_most.filter(|_| how == How::TimedOut && self.is_late());
        let no_wait_until = vain.and_then(|at_most| clock::now().checked_add(at_most * NO_WAIT));
        let mut state = self.device.queue.state.lock_own();
        if let Some(no_wait_until) = no_wait_until {
            state.waited_in_vain(no_wait_until);
        }
        let waker = state.withdraw(ticket);
        let begun = state.begin_beside();
        self.device.queue.publish(&state);
        drop(state);
        drop(waker);
        // What it stood in front of may begin.
        self.device.queue.look();
        (self.device.turn(begun), how)
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

impl Wait for Waiting<'_> {
    type Output = (Turn, How);

    fn look(&mut self, waker: &Waker) -> Option<(Turn, How)> {
        let ticket = self.ticket.expect("polled after it was ready");
        let cancelled = self.cancel.as_ref().is_some_and(|cancel| !cancel.register(waker));
        let ended = match self.look_in_queue(ticket, waker) {
            Standing::Granted(begun) => (self.device.turn(begun), How::InTurn),
            _ if cancelled => self.give_up(ticket, How::Cancelled),
            Standing::Gone => self.give_up(ticket, How::TimedOut),
            Standing::Waits { look_at } => {
                self.look_at = look_at;
                return None;
            }
        };
        (self.ticket, self.cancel, self.alarm) = (None, None, None);
        Some(ended)
    }

    fn look_again_at(&self) -> Option<Instant> {
        self.look_at
    }

    fn alarm(&mut self) -> &mut Option<Alarm> {
        &mut self.alarm
    }
}

impl Future for Waiting<'_> {
    type Output = (Turn, How);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Turn, How)> {
        wait::poll(self.get_mut(), context)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let waker = self.device.queue.state.lock_own().withdraw(ticket);
        drop(waker);
        self.device.queue.look();
    }
}
