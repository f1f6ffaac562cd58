//! The attributes on `async fn`.
//!
//! Bodies here are pending in the middle, so that attempts are suspended and others run meanwhile.

#[cfg(feature = "testing")]
mod device;
mod dropped;
mod executor;
mod hook;
mod panics;
mod send;
mod shapes;
mod threads;
mod views;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use toma::classify::OutOfMemory;

/// Words that mean it.
const OUT_OF_MEMORY: &str = "CUDA out of memory. Tried to allocate 2.00 GiB";

/// Memory for at most `limit` items, after a while.
async fn allocate(items: usize, limit: usize) -> Result<(), OutOfMemory> {
    pause().await;
    if items > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

/// Is pending once, and woken at once.
async fn pause() {
    let mut first = true;
    poll_fn(|context| {
        if !std::mem::take(&mut first) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future to its end.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
    }
}

/// Attempts of the last call that ran out of memory.
fn failures() -> usize {
    toma::report::last().expect("a call ended on this thread").out_of_memory
}
