//! Votes in tasks: a thread waits for the votes of all ranks, and then wakes the task.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

use super::{Agreed, Error, Waiting};
use crate::contained::contained;

/// State shared by the waiting thread and the task.
#[derive(Default)]
struct Shared {
    heard: Option<Result<Agreed, Error>>,
    waker: Option<Waker>,
}

/// Returns the agreement of all ranks, without blocking the thread that polls.
pub(crate) async fn heard(cast: Result<Waiting, Error>) -> Result<Agreed, Error> {
    let waiting = cast?;
    let shared = Arc::new(Mutex::new(Shared::default()));
    let told = Arc::clone(&shared);
    let wait = move || {
        let heard = contained(waiting);
        let mut shared = told.lock().unwrap_or_else(PoisonError::into_inner);
        shared.heard = Some(heard.unwrap_or_else(|| Err(Error::Store("a panic while it waited".to_owned()))));
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
    };
    let spawned = thread::Builder::new().name("toma-ranks".to_owned()).spawn(wait);
    spawned.map_err(|error| Error::Store(format!("no thread to wait on: {error}")))?;
    poll_fn(|context| {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(heard) = shared.heard.take() {
            return Poll::Ready(heard);
        }
        shared.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}
