//! One attempt: run under the [shield](crate::shield), and between the modes of the thread.
//!
//! A library may have [registered](crate::thread_state) modes of the thread: an attempt that fails leaves
//! those from before it.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::nesting::{Inside, Surroundings};
use crate::shield::{self, Panic, Retryable};
use crate::thread_state::{Before, Tasked};

/// Runs `body` once; a panic comes back as a value, with the modes of the thread as they were.
#[inline]
pub(crate) fn attempt<R>(
    retryable: Retryable,
    before: &Before,
    body: impl FnOnce() -> R,
) -> Result<R, Panic> {
    shield::run(retryable, body).inspect_err(|_| before.recover())
}

/// Polls `body` to its end; the shield is raised for each poll only, so that other tasks of the
/// thread keep their messages. The modes are those from before the last poll.
pub(crate) async fn attempt_async<F: Future>(
    (retryable, surroundings): (Retryable, Option<Surroundings>),
    body: F,
) -> (Before, Result<F::Output, Panic>) {
    let mut body = pin!(Some(body));
    let mut running = Running { task: Some(Tasked::new(body.as_mut())), surroundings };
    poll_fn(|context| {
        let _inside = Inside::of(surroundings);
        let before = Before::now();
        let task = running.task.as_mut().expect("it is dropped with the attempt");
        let result = match attempt(retryable, &before, || task.poll(before, context)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(outcome)) => Ok(outcome),
            Err(panic) => Err(panic),
        };
        Poll::Ready((before, result))
    })
    .await
}

/// A body that may be dropped while it waits, with loops in its destructors.
struct Running<'a, F: Future> {
    task: Option<Tasked<'a, F>>,
    surroundings: Option<Surroundings>,
}

impl<F: Future> Drop for Running<'_, F> {
    fn drop(&mut self) {
        let _inside = Inside::of(self.surroundings);
        self.task = None;
    }
}
