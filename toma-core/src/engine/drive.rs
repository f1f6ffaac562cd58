//! The synchronous driver, attempts at one piece until it is done or the failure goes through, and what
//! it shares with the [asynchronous](super::asynchronous) one.

use std::ops::Range;

use super::attempt;
use super::call::Call;
use super::machine::Verdict;
use crate::classify::{Failure, classify_panic};
use crate::nesting::{Inside, Surroundings};
use crate::outcome::Judge;
use crate::policy::Policy;
use crate::shield::{self, Panic, Retryable};
#[cfg(feature = "testing")]
use crate::testing::inject;
use crate::thread_state::Before;

/// A body, and what follows when an attempt of it failed.
pub(crate) trait Work<R> {
    /// Whether single items may be left out; known at compile time, so that other work is spared the
    /// question.
    const LEAVES_OUT: bool;

    fn run(&mut self, piece: Range<usize>) -> R;
    fn care(&mut self) -> &mut impl Care;
}

/// What happens after attempts that failed.
pub(crate) trait Care {
    fn undo(&mut self, failed: Range<usize>);

    /// Whether somebody takes care of items that fail alone.
    fn hears(&self) -> bool {
        false
    }

    /// An item failed alone; the work goes on without it.
    fn set_aside(&mut self, index: usize, cost: usize, failure: Failure) {
        let _ = (index, cost, failure);
    }
}

/// Runs attempts at the next piece until one succeeds or its failure goes through.
#[inline]
pub(crate) fn drive<R, M>(
    call: &mut Call<'_, impl Policy>,
    judge: &impl Judge<R, M>,
    work: &mut impl Work<R>,
) -> Done<R> {
    loop {
        call.enter();
        let inside = Inside::of(call.surroundings());
        let (piece, retryable) = call.begin();
        let before = Before::now();
        let result = attempt(retryable, &before, &piece, || work.run(piece.clone()));
        match settle(call, (retryable, &before), result, judge) {
            Turn::Done(done) => return done,
            Turn::Retry => {
                work.care().undo(piece);
                drop(inside);
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
    /// An item failed alone, and the others go on.
    /// In a box, because what all attempts come to should fit into registers.
    SetAside(Box<Lost<R>>),
}

/// What an item that failed alone came to.
pub(crate) struct Lost<R> {
    pub(crate) index: usize,
    pub(crate) cost: usize,
    pub(crate) failure: Failure,
    /// Where it worked, and what it has done is undone.
    pub(crate) surroundings: Option<Surroundings>,
    outcome: Result<R, Panic>,
}

impl<R> Lost<R> {
    /// The error, to be passed on after all; a panic goes on here.
    pub(crate) fn pass_on(self) -> R {
        pass_on(self.outcome)
    }
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
                before.recover();
                settle_failed(call, retryable, failure, Ok(outcome))
            }
        },
        Err(panic) => settle_panic(call, retryable, panic),
    }
}

/// The same for an attempt that has panicked.
#[cold]
pub(crate) fn settle_panic<R>(
    call: &mut Call<'_, impl Policy>,
    retryable: Retryable,
    panic: Panic,
) -> Turn<R> {
    let failure = classify_panic(panic.payload.as_ref());
    settle_failed(call, retryable, failure, Err(panic))
}

#[cold]
fn settle_failed<R>(
    call: &mut Call<'_, impl Policy>,
    retryable: Retryable,
    failure: Failure,
    outcome: Result<R, Panic>,
) -> Turn<R> {
    let surroundings = call.surroundings();
    match call.failed(retryable, &failure, outcome.as_ref().err()) {
        Verdict::GiveUp(_) => Turn::Done(Done::Failed(pass_on(outcome))),
        Verdict::SetAside { index, cost } => {
            Turn::Done(Done::SetAside(Box::new(Lost { index, cost, failure, surroundings, outcome })))
        }
        _ => Turn::Retry,
    }
}

/// The error that goes through; a panic goes on here.
fn pass_on<R>(outcome: Result<R, Panic>) -> R {
    outcome.unwrap_or_else(|panic| shield::pass_on(panic))
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
