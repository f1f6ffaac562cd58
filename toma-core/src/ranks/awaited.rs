//! Votes in tasks: a thread waits for the votes of all ranks, and then wakes the task.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

use super::{Agreed, Error, Waiting};
use crate::contained::contained;

/// State shared by the waiting thread and the task.
#[derive(Default)]
struct Exchange {
    verdict: Option<Result<Agreed, Error>>,
    waker: Option<Waker>,
}

/// Returns the agreement of all ranks, without blocking the thread that polls.
pub(crate) async fn awaited(cast: Result<Waiting, Error>) -> Result<Agreed, Error> {
    let waiting = cast?;
    let exchange = Arc::new(Mutex::new(Exchange::default()));
    let sender = Arc::clone(&exchange);
    let wait = move || {
        let verdict = contained(waiting);
        let verdict = verdict.unwrap_or_else(|| Err(Error::Store("a panic while it waited".to_owned())));
        // Wakers are foreign code, which may poll the task at once, so they run without the lock.
        let waker = {
            let mut exchange = sender.lock().unwrap_or_else(PoisonError::into_inner);
            exchange.verdict = Some(verdict);
            exchange.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    };
    let spawned = thread::Builder::new().name("toma-ranks".to_owned()).spawn(wait);
    spawned.map_err(|error| Error::Store(format!("no thread to wait on: {error}")))?;
    poll_fn(|context| {
        let waker = context.waker().clone();
        let mut exchange = exchange.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(verdict) = exchange.verdict.take() {
            return Poll::Ready(verdict);
        }
        let earlier = exchange.waker.replace(waker);
        drop(exchange);
        drop(earlier);
        Poll::Pending
    })
    .await
}
