//! Waits by threads and by tasks, which take the same steps and differ only in how they pause between them.
//!
//! # Why
//!
//! One mechanism serves waits for turns and for bytes. The pure queues know a wait by its key, and one table keeps
//! the wakers. So bounds, cancellation and order are written once, and foreign code runs in one file, without a
//! lock.
//!
//! Bounds pass in real time even if a test has stopped the engine's clock, because the work in the way takes real
//! time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use super::Cancel;
use super::sleepers::{self, SleeperId};

/// A resource that can be waited for.
pub(crate) trait WaitFor {
    type Output;

    /// Returns the outcome, or else when to look again without being woken.
    fn look(&mut self, key: SleeperId) -> Result<Self::Output, Option<Instant>>;

    /// Leaves the queue, because the wait is given up.
    fn leave(&mut self, key: SleeperId);

    /// A handle that also ends the wait.
    fn cancel(&self) -> Option<&Cancel> {
        None
    }
}

/// A wait: a future, or [`wait`](Self::wait) for a thread. Leaves its queue if it is dropped before it is over.
#[must_use = "waits only when it is polled or waited for"]
#[derive(Debug)]
pub(crate) struct Waits<W: WaitFor> {
    pub(super) on: W,
    /// `None` once the wait is over.
    pub(super) key: Option<SleeperId>,
}

impl<W: WaitFor> Waits<W> {
    fn look(&mut self, waker: &Waker) -> Result<W::Output, Option<Instant>> {
        let key = self.key.expect("polled after it was ready");
        sleepers::sleeps(key, waker, self.on.cancel().map(Cancel::flag));
        let output = self.on.look(key)?;
        self.key = None;
        sleepers::wakes_up(key);
        Ok(output)
    }

    /// Blocks the thread until the wait is over.
    pub(crate) fn wait(mut self) -> W::Output {
        let waker = Waker::from(Arc::new(ParkedThread(thread::current())));
        loop {
            match self.look(&waker) {
                Ok(output) => return output,
                Err(Some(at)) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                Err(None) => thread::park(),
            }
        }
    }
}

struct ParkedThread(Thread);

impl Wake for ParkedThread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<W: WaitFor + Unpin> Future for Waits<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        let at = match self.look(context.waker()) {
            Ok(output) => return Poll::Ready(output),
            Err(at) => at,
        };
        if let (Some(key), Some(at)) = (self.key, at)
            && !sleepers::set_alarm(key, at)
        {
            // No thread watches the time, so the task polls again at once.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<W: WaitFor> Drop for Waits<W> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            sleepers::wakes_up(key);
            self.on.leave(key);
        }
    }
}
