//! Running futures that wait for nobody.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future to its end.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

/// Is pending once.
pub(crate) async fn pause() {
    let mut first = true;
    poll_fn(|_| if mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
}
