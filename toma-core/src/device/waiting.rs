//! Waiting for a turn, by a thread or by a task.

use std::time::{Duration, Instant};

use super::Cancel;
use super::queue::{Standing, TurnKind};
use super::sleepers::SleeperId;
use super::turn::{Device, Turn};
use super::wait::{WaitFor, Waits};
use crate::clock;
use crate::nesting::Nesting;

/// After a wait in vain, no call waits for this many times its length, while the turns in the way still run.
const NO_WAIT: u32 = 10;

/// Conditions that end a wait, whichever comes first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitBounds<'a> {
    /// The bound, in real time even where a test has stopped the engine's clock. A wait that lasts this long is in
    /// vain.
    pub(crate) at_most: Duration,
    /// A time on the engine's clock; the rest until then passes in real time.
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<&'a Cancel>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The turn was granted.
    InTurn,
    /// The bound or the deadline has passed, or an attempt that holds a turn polled the wait: the attempt begins
    /// next to the others.
    TimedOut,
    /// The call was cancelled: the attempt begins next to the others.
    Cancelled,
}

/// A wait for a turn, which is in the queue from the beginning. If it is dropped before it is over, a granted turn
/// passes to the next entry.
pub(crate) type Waiting<'a> = Waits<ForTurn<'a>>;

#[derive(Debug)]
pub(crate) struct ForTurn<'a> {
    device: Device,
    until: Option<Instant>,
    /// The bound, if it comes before the deadline.
    at_most: Option<Duration>,
    cancel: Option<&'a Cancel>,
    /// Number of other turns that ran when the wait began.
    others: usize,
}

impl Device {
    /// Queues at the tail for a turn.
    ///
    /// Not for attempts that hold a turn on any device, because work that holds a turn never waits.
    pub(crate) fn wait_for<'a>(&self, kind: TurnKind, bounds: WaitBounds<'a>) -> Waiting<'a> {
        Waiting::new(self.clone(), kind, bounds)
    }
}

impl Turn {
    /// Queues at the tail for an exclusive turn, and ends this one.
    pub(crate) fn exclusive_again(self, bounds: WaitBounds<'_>) -> Waiting<'_> {
        let mut waiting = self.device.wait_for(TurnKind::Exclusive, bounds);
        waiting.on.others = self.others();
        waiting
    }
}

impl<'a> Waiting<'a> {
    /// A wait at the tail of the queue.
    #[cold]
    fn new(device: Device, kind: TurnKind, bounds: WaitBounds<'a>) -> Self {
        let WaitBounds { at_most, deadline, cancel } = bounds;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
        let until = Instant::now().checked_add(left.map_or(at_most, |left| left.min(at_most)));
        let at_most = Some(at_most).filter(|at_most| left.is_none_or(|left| *at_most <= left));
        let key = SleeperId::new();
        let mut state = device.queue.state.lock_own();
        state.queue(key, kind, until);
        let others = state.running;
        drop(state);
        device.queue.look(None);
        Self { on: ForTurn { device, until, at_most, cancel, others }, key: Some(key) }
    }

    /// Returns the number of other turns that ran when the wait began.
    pub(crate) fn others(&self) -> usize {
        self.on.others
    }
}

impl ForTurn<'_> {
    /// Ends the wait without a granted turn, and begins a turn next to the others.
    fn give_up(&self, key: SleeperId, how: How) -> (Turn, How) {
        let queue = &self.device.queue;
        let is_late = || self.until.is_some_and(|until| Instant::now() >= until);
        let vain = self.at_most.filter(|_| how == How::TimedOut && is_late());
        let no_wait_until = vain.and_then(|at_most| clock::now().checked_add(at_most * NO_WAIT));
        let mut state = queue.state.lock_own();
        if let Some(no_wait_until) = no_wait_until {
            state.waited_in_vain(no_wait_until);
        }
        state.withdraw(key);
        let begun = state.begin(TurnKind::Shared);
        queue.publish(&state);
        drop(state);
        // Entries behind the withdrawn one may begin now.
        queue.look(None);
        (self.device.turn(begun), how)
    }
}

impl WaitFor for ForTurn<'_> {
    type Output = (Turn, How);

    fn look(&mut self, key: SleeperId) -> Result<(Turn, How), Option<Instant>> {
        let is_cancelled = self.cancel.is_some_and(Cancel::is_cancelled);
        self.device.queue.look(Some(key));
        let standing = self.device.queue.state.lock_own().claim(key);
        match standing {
            Standing::Granted(begun) => Ok((self.device.turn(begun), How::InTurn)),
            _ if is_cancelled => Ok(self.give_up(key, How::Cancelled)),
            Standing::Gone => Ok(self.give_up(key, How::TimedOut)),
            // The wait began outside of attempts, and is polled inside one, where nothing waits.
            Standing::Waits { .. } if Nesting::now().enclosing.holds_any() => {
                Ok(self.give_up(key, How::TimedOut))
            }
            Standing::Waits { look_at } => Err(look_at),
        }
    }

    fn leave(&mut self, key: SleeperId) {
        self.device.queue.state.lock_own().withdraw(key);
        self.device.queue.look(None);
    }

    fn cancel(&self) -> Option<&Cancel> {
        self.cancel
    }
}
