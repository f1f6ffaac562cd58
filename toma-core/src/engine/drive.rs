//! The synchronous driver, attempts at one piece until it is done or the failure goes through, and what it shares
//! with the [asynchronous](super::asynchronous) one.

use std::ops::Range;

use super::attempt::Attempt;
use super::call::Call;
use super::call::voting::Together;
use crate::classify::{Class, Failure, classify_panic};
use crate::observe::Answer;
use crate::outcome::Judge;
use crate::policy::Policy;
use crate::ranks::{Agreed, Error};
use crate::shield::{self, Inside, Panic};
use crate::thread_state::Before;

/// A body, and what follows when an attempt of it failed.
pub(crate) trait Work<R> {
    /// Whether single items may be left out; known at compile time, so that other work is spared the question.
    const LEAVES_OUT: bool;

    /// What its attempts are inside of: a batch, or pieces of a whole.
    const INSIDE: Inside = Inside::PIECE;

    fn run(&mut self, piece: Range<usize>) -> R;
    fn cleanup(&mut self) -> &mut impl Cleanup;
}

/// What happens after attempts that failed.
pub(crate) trait Cleanup {
    fn undo(&mut self, failed: Range<usize>);

    /// Whether the call goes on without items that do not fit by themselves, and ends well.
    fn takes_left_out(&self) -> bool {
        false
    }

    /// An item does not fit by itself; the work goes on without it.
    fn leave_out(&mut self, index: usize, cost: usize, failure: Failure) {
        let _ = (index, cost, failure);
    }
}

/// Runs attempts until a piece is done. `Err`: the failure to pass on; panics never come back. `None`: there is
/// nothing more.
///
/// The first item that does not fit by itself waits in `left_out` until the others are done, unless the call takes
/// such items.
#[inline]
pub(crate) fn next_piece<R, M, W: Work<R>>(
    call: &mut Call<'_>,
    policy: &dyn Policy,
    judge: &impl Judge<R, M>,
    work: &mut W,
    left_out: &mut Option<LeftOutItem<R>>,
) -> Option<Result<R, R>> {
    while call.goes_on() {
        let mut attempt = call.begin();
        let inside = attempt.enter();
        let before = Before::now();
        let piece = attempt.piece.clone();
        let run = || work.run(piece);
        let result = attempt.run(W::INSIDE, &before, run, || call.takes_left());
        match settle_now(call, policy, &mut attempt, (result, &before), judge) {
            Settled::Succeeded(value) => return Some(Ok(value)),
            Settled::Failed(error) => return Some(Err(error)),
            Settled::LeftOut(item) if W::LEAVES_OUT => {
                drop(inside);
                leave_out(call, policy, work.cleanup(), (item, attempt), left_out);
            }
            Settled::LeftOut(item) => return Some(Err(item.pass_on())),
            Settled::Retry(answer) => {
                work.cleanup().undo(attempt.piece.clone());
                drop(inside);
                call.release(policy, attempt, answer);
            }
        }
    }
    if let Some(error) = call.ended() {
        return Some(Err(judge.elsewhere(&error)));
    }
    left_out.take().map(|item| Err(pass_on_left_out(call, item)))
}

/// Judges what an attempt came to; blocks the thread until all ranks have voted, where the call has several.
#[inline(always)]
#[expect(clippy::inline_always, reason = "handing its parts over takes a tenth of a batch")]
fn settle_now<R, M>(
    call: &mut Call<'_>,
    policy: &dyn Policy,
    attempt: &mut Attempt,
    ended: (Result<R, Panic>, &Before),
    judge: &impl Judge<R, M>,
) -> Settled<R> {
    let votes = |call: &mut Call<'_>, attempt: &mut Attempt, value| {
        let heard = call.votes(policy, attempt).and_then(|waiting| waiting());
        agreed(call, attempt, value, heard, judge)
    };
    settle(call, policy, attempt, ended, (judge, votes))
}

/// What an attempt came to by the votes of all ranks.
#[cold]
pub(crate) fn agreed<R, M>(
    call: &mut Call<'_>,
    attempt: &Attempt,
    value: R,
    heard: Result<Agreed, Error>,
    judge: &impl Judge<R, M>,
) -> Settled<R> {
    match call.hears_of_success(attempt, heard) {
        Together::Counts => Settled::Succeeded(value),
        Together::Again(answer) => {
            call.drop_failed(value);
            Settled::Retry(answer)
        }
        Together::Ended => {
            drop(value);
            let error = call.ended().expect("the call has just ended with it");
            Settled::Failed(judge.elsewhere(&error))
        }
    }
}

/// What an attempt came to on this rank.
pub(crate) enum Alone<R> {
    Settled(Settled<R>),
    /// It has succeeded here, and all ranks have to say what it came to.
    Votes(R),
}

impl<R> From<Settled<R>> for Alone<R> {
    fn from(settled: Settled<R>) -> Self {
        Self::Settled(settled)
    }
}

impl<R> Alone<R> {
    /// The same of a call that has no other ranks.
    pub(crate) fn without_ranks(self) -> Settled<R> {
        match self {
            Self::Settled(settled) => settled,
            Self::Votes(value) => Settled::Succeeded(value),
        }
    }
}

/// What an attempt came to.
pub(crate) enum Settled<R> {
    Succeeded(R),
    Failed(R),
    LeftOut(LeftOutItem<R>),
    /// The failed values are dropped: undo, release, try again.
    Retry(Answer),
}

/// What an item came to that does not fit by itself.
pub(crate) struct LeftOutItem<R> {
    pub(crate) index: usize,
    pub(crate) cost: usize,
    pub(crate) failure: Failure,
    outcome: Result<R, Panic>,
}

impl<R> LeftOutItem<R> {
    /// The error, to be passed on after all; a panic goes on here.
    pub(crate) fn pass_on(self) -> R {
        pass_on(self.outcome)
    }
}

/// Judges what an attempt came to; a panic that is not tried again continues here. After a failure the thread has the
/// modes from before the attempt, whatever looks at it first.
///
/// `votes` asks all ranks about an attempt that has succeeded here.
#[inline(always)]
#[expect(clippy::inline_always, reason = "handing its parts over takes a tenth of a batch")]
pub(crate) fn settle<'a, R, M, S: From<Settled<R>>>(
    call: &mut Call<'a>,
    policy: &dyn Policy,
    attempt: &mut Attempt,
    (result, before): (Result<R, Panic>, &Before),
    (judge, votes): (&impl Judge<R, M>, impl FnOnce(&mut Call<'a>, &mut Attempt, R) -> S),
) -> S {
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(panic) => return settle_panic(call, policy, attempt, panic).into(),
    };
    let failure = judge.failure(&outcome);
    let failure = if call.gave_way(attempt) { Some(or_gave_way(failure)) } else { failure };
    match failure {
        None if call.agrees() => votes(call, attempt, outcome),
        None => {
            call.succeeded(policy, attempt);
            Settled::Succeeded(outcome).into()
        }
        Some(failure) => {
            before.recover();
            settle_failed(call, policy, attempt, failure, Ok(outcome)).into()
        }
    }
}

/// The same for an attempt that has panicked.
#[cold]
pub(crate) fn settle_panic<R>(
    call: &mut Call<'_>,
    policy: &dyn Policy,
    attempt: &mut Attempt,
    panic: Panic,
) -> Settled<R> {
    let failure = classify_panic(panic.payload.as_ref());
    settle_failed(call, policy, attempt, failure, Err(panic))
}

#[cold]
fn settle_failed<R>(
    call: &mut Call<'_>,
    policy: &dyn Policy,
    attempt: &mut Attempt,
    failure: Failure,
    outcome: Result<R, Panic>,
) -> Settled<R> {
    match call.failed(policy, attempt, &failure, outcome.as_ref().err()) {
        Answer::GiveUp(_) => Settled::Failed(pass_on(outcome)),
        Answer::LeaveOut { index, cost } => Settled::LeftOut(LeftOutItem { index, cost, failure, outcome }),
        answer => {
            call.drop_failed(outcome);
            Settled::Retry(answer)
        }
    }
}

/// What an attempt came to in which a loop left it to be redone: nothing but a poisoned device matters beside that.
#[cold]
fn or_gave_way(failure: Option<Failure>) -> Failure {
    let poisoned = failure.filter(|failure| failure.class == Class::Poisoned);
    poisoned.unwrap_or_else(|| {
        Failure::new(Class::OutOfMemory, "a loop inside gave way to other users of the device")
    })
}

/// The error that goes through; a panic goes on here.
fn pass_on<R>(outcome: Result<R, Panic>) -> R {
    outcome.unwrap_or_else(|panic| shield::pass_on(panic))
}

/// The error of an item that does not fit by itself, to be passed on now that the others are done; a panic goes on
/// here.
#[cold]
pub(crate) fn pass_on_left_out<R>(call: &mut Call<'_>, item: LeftOutItem<R>) -> R {
    call.gives_up_left_out(item.cost);
    item.pass_on()
}

/// Goes on without an item that does not fit by itself: cleans up as before a retry, and then tells of it.
///
/// Of failures that are not taken, the first is kept; the others are in the report.
#[cold]
pub(crate) fn leave_out<R>(
    call: &mut Call<'_>,
    policy: &dyn Policy,
    cleanup: &mut impl Cleanup,
    (item, attempt): (LeftOutItem<R>, Attempt),
    left_out: &mut Option<LeftOutItem<R>>,
) {
    let (index, cost, failure) = (item.index, item.cost, item.failure.clone());
    if !cleanup.takes_left_out() {
        // It goes through in the end, which is here where there are ranks.
        call.leaves_ranks(&failure);
    }
    let inside = attempt.enter();
    if cleanup.takes_left_out() || left_out.is_some() {
        call.drop_failed(item);
    } else {
        *left_out = Some(item);
    }
    cleanup.undo(index..index + 1);
    drop(inside);
    call.release(policy, attempt, Answer::LeaveOut { index, cost });
    cleanup.leave_out(index, cost, failure);
}
