//! The drivers: attempts at one piece until it is done or the failure goes through.

use std::future::Future;
use std::ops::Range;

use super::attempt::{self, Panic};
use super::call::Call;
use super::machine::Retryable;
use crate::classify::classify_panic;
use crate::outcome::Judge;
use crate::policy::Policy;
#[cfg(feature = "testing")]
use crate::testing::inject;
use crate::thread_state::Before;

/// A body, and what undoes a failed attempt of it.
pub(crate) trait Work<R> {
    fn run(&mut self, piece: Range<usize>) -> R;
    fn undo(&mut self, failed: Range<usize>);
}

/// Runs attempts at the next piece until one succeeds or its failure goes through.
#[inline]
pub(crate) fn drive<R, M>(
    call: &mut Call<'_, impl Policy>,
    judge: &impl Judge<R, M>,
    work: &mut impl Work<R>,
) -> Done<R> {
    loop {
        let (piece, retryable) = call.begin();
        let before = Before::now();
        let result = attempt(retryable, &before, &piece, || work.run(piece.clone()));
        match settle(call, (retryable, &before), result, judge) {
            Turn::Done(done) => return done,
            Turn::Retry => {
                work.undo(piece);
                call.release();
            }
        }
    }
}

/// How the attempts at a piece ended.
pub(crate) enum Done<R> {
    Succeeded(R),
    /// The error to pass on. Panics never come back.
    Failed(R),
}

/// What to do after an attempt.
pub(crate) enum Turn<R> {
    Done(Done<R>),
    /// The failed values are dropped: undo, release, try again.
    Retry,
}

/// Judges what an attempt came to; a panic that is not tried again continues here. After a failure
/// the thread has the modes from before the attempt, whoever looks at it first.
#[inline]
pub(crate) fn settle<R, M>(
    call: &mut Call<'_, impl Policy>,
    (retryable, before): (Retryable, &Before),
    result: Result<R, Panic>,
    judge: &impl Judge<R, M>,
) -> Turn<R> {
    match result {
        Ok(outcome) => match judge.failure(&outcome) {
            None => {
                call.succeeded();
                Turn::Done(Done::Succeeded(outcome))
            }
            Some(failure) => {
                before.put_back();
                if call.failed(retryable, &failure) { Turn::Retry } else { Turn::Done(Done::Failed(outcome)) }
            }
        },
        Err(panic) => retry_panic(call, retryable, panic),
    }
}

#[cold]
fn retry_panic<R>(call: &mut Call<'_, impl Policy>, retryable: Retryable, panic: Panic) -> Turn<R> {
    let failure = classify_panic(panic.payload.as_ref());
    if call.failed(retryable, &failure) {
        return Turn::Retry;
    }
    attempt::pass_on(panic)
}

/// One attempt; with the feature `testing`, failures may be injected where a retry is possible.
#[inline]
fn attempt<R>(
    retryable: Retryable,
    before: &Before,
    piece: &Range<usize>,
    body: impl FnOnce() -> R,
) -> Result<R, Panic> {
    #[cfg(feature = "testing")]
    if let Some(injected) = inject::ask(retryable, piece.len()) {
        return attempt::attempt(retryable, before, || injected.around(body));
    }
    let _ = piece;
    attempt::attempt(retryable, before, body)
}

/// The same for an async body, with the modes from before its last poll.
pub(crate) async fn attempt_async<F: Future>(
    retryable: Retryable,
    piece: Range<usize>,
    body: F,
) -> (Before, Result<F::Output, Panic>) {
    #[cfg(feature = "testing")]
    if let Some(injected) = inject::ask(retryable, piece.len()) {
        return attempt::attempt_async(retryable, injected.around_async(body)).await;
    }
    let _ = piece;
    attempt::attempt_async(retryable, body).await
}
