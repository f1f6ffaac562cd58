//! Runs futures.

#![allow(dead_code, reason = "no program of tests uses all of it")]

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Polls a future once.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future that waits for nothing to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
    }
}

/// Unparks a thread, and records that it did.
pub(crate) struct Unpark(Thread, AtomicBool);

impl Unpark {
    pub(crate) fn this_thread() -> Arc<Self> {
        Arc::new(Self(thread::current(), AtomicBool::new(true)))
    }

    /// Waits for the next wake.
    pub(crate) fn park(&self) {
        while !self.1.swap(false, SeqCst) {
            thread::park();
        }
    }
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, SeqCst);
        self.0.unpark();
    }
}

/// Runs a future to its end, and polls it only after a wake, so a missing wake hangs.
pub(crate) fn block_on_wakes<F: Future>(future: F) -> F::Output {
    let woken = Unpark::this_thread();
    let (waker, mut future) = (Waker::from(Arc::clone(&woken)), pin!(future));
    loop {
        woken.park();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
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
