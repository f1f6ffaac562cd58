//! Waiting, by a thread or by a task: the same steps, only what happens between them differs.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use super::watchdog::Alarm;
use crate::contained::contained;

/// Something that is waited for.
pub(super) trait Wait {
    type Output;

    /// Whether the wait is over; if not, `waker` is told when looking again is worth while.
    fn look(&mut self, waker: &Waker) -> Option<Self::Output>;

    /// When to look again although no waker was told.
    fn look_again_at(&self) -> Option<Instant>;

    /// Where the alarm for that moment is kept, which a task needs.
    fn alarm(&mut self) -> &mut Option<Alarm>;
}

/// Blocks the thread.
pub(super) fn block<W: Wait>(wait: &mut W) -> W::Output {
    let waker = Waker::from(Arc::new(Parked(thread::current())));
    loop {
        if let Some(output) = wait.look(&waker) {
            return output;
        }
        match wait.look_again_at() {
            Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}

struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Lets the task wait.
pub(super) fn poll<W: Wait>(wait: &mut W, context: &Context<'_>) -> Poll<W::Output> {
    let waker = context.waker();
    if let Some(output) = wait.look(waker) {
        return Poll::Ready(output);
    }
    if let Some(at) = wait.look_again_at() {
        let alarm = Alarm::set(at, waker);
        if alarm.is_none() {
            // No thread watches the time, so the task does it itself.
            waker.wake_by_ref();
        }
        *wait.alarm() = alarm;
    }
    Poll::Pending
}

/// Wakes all of them; to be called without a lock, because a waker is foreign code. For the same reason one
/// that panics is passed over: others wait behind it.
pub(super) fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        contained(|| waker.wake());
    }
}
