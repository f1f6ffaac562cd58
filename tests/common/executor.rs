//! Runs futures that wait for nothing.

#![allow(dead_code, reason = "no program of tests uses all of it")]

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// Polls a future once.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
    }
}

/// Is pending once and wakes its task immediately.
pub(crate) async fn pause() {
    let mut first = true;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
}
