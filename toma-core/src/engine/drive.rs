//! The synchronous driver, which attempts a piece until it succeeds or its failure is passed on, and the code that it
//! shares with the [asynchronous](super::asynchronous) one.

use std::ops::Range;

use super::attempt::Attempt;
use super::call::Call;
use super::call::voting::Together;
use crate::classify::{Class, Failure, classify_panic};
use crate::observe::Answer;
use crate::outcome::Judge;
use crate::policy::Policy;
use crate::ranks::{Agreed, Error};
use crate::shield::{self, Panic};
use crate::thread_state::Before;

/// A body, and its cleanup after failed attempts.
pub(crate) trait Work<R> {
    /// True if single items may be left out. A constant, so that other work pays nothing for it.
    const LEAVES_OUT: bool;

    fn run(&mut self, piece: Range<usize>) -> R;
    fn cleanup(&mut self) -> &mut impl Cleanup;
}

/// Cleanup after failed attempts.
pub(crate) trait Cleanup {
    fn undo(&mut self, failed: Range<usize>);

    /// True if the call succeeds without items that do not fit by themselves.
    fn takes_left_out(&self) -> bool {
        false
    }

    /// Reports an item that does not fit by itself; the work continues without it.
    fn leave_out(&mut self, index: usize, cost: usize, failure: Failure) {
        let _ = (index, cost, failure);
    }
}

/// Runs attempts until a piece is done. Returns `Err` with a failure to pass on (a panic continues instead), and
/// `None` if no work is left.
///
/// Unless the call takes items that do not fit by themselves, the first such item waits in `left_out` until the
/// others are done.
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
        let result = attempt.run(&before, run, || call.takes_left());
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

/// Judges the result of an attempt. If the call has several ranks, blocks the thread until all have voted.
#[inline(always)]
#[expect(clippy::inline_always, reason = "handing its parts over takes a tenth of a batch")]
fn settle_now<R, M>(
    call: &mut Call<'_>,
    policy: &dyn Policy,
    attempt: &mut Attempt,
    ended: (Result<R, Panic>, &Before),
    judge: &impl Judge<R, M>,
) -> Settled<R> {
    let before = ended.1;
    let votes = |call: &mut Call<'_>, attempt: &mut Attempt, value| {
        let verdict = call.votes(policy, attempt).and_then(|waiting| waiting());
        let settled = agreed(call, attempt, value, verdict, judge);
        if !matches!(settled, Settled::Succeeded(_)) {
            before.recover();
        }
        settled
    };
    settle(call, policy, attempt, ended, (judge, votes))
}

/// Returns the result of an attempt by the votes of all ranks.
#[cold]
pub(crate) fn agreed<R, M>(
    call: &mut Call<'_>,
    attempt: &Attempt,
    value: R,
    verdict: Result<Agreed, Error>,
    judge: &impl Judge<R, M>,
) -> Settled<R> {
    match call.agreed_on_success(attempt, verdict) {
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

/// Result of an attempt on this rank.
pub(crate) enum Alone<R> {
    Settled(Settled<R>),
    /// It has succeeded here, and all ranks have to vote on it.
    Votes(R),
}

impl<R> From<Settled<R>> for Alone<R> {
    fn from(settled: Settled<R>) -> Self {
        Self::Settled(settled)
    }
}

impl<R> Alone<R> {
    /// Returns the result in a call that has no other ranks.
    pub(crate) fn without_ranks(self) -> Settled<R> {
        match self {
            Self::Settled(settled) => settled,
            Self::Votes(value) => Settled::Succeeded(value),
        }
    }
}

/// Result of an attempt.
pub(crate) enum Settled<R> {
    Succeeded(R),
    Failed(R),
    LeftOut(LeftOutItem<R>),
    /// The failed values are dropped. The caller undoes, releases and retries.
    Retry(Answer),
}

/// An item that does not fit by itself, with its failure.
pub(crate) struct LeftOutItem<R> {
    pub(crate) index: usize,
    pub(crate) cost: usize,
    pub(crate) failure: Failure,
    outcome: Result<R, Panic>,
}

impl<R> LeftOutItem<R> {
    /// Returns the error, which is passed on after all; a panic continues here.
    pub(crate) fn pass_on(self) -> R {
        pass_on(self.outcome)
    }
}

/// Judges the result of an attempt. A panic that is not retried continues here. After a failure the thread's modes
/// from before the attempt are restored before any other code sees the failure.
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
    match judge.failure(&outcome) {
        None if call.agrees() => votes(call, attempt, outcome),
        None => {
            call.succeeded(policy, attempt);
            Settled::Succeeded(outcome).into()
        }
        Some(failure) => {
            before.recover();
            let failure = if call.gave_way(attempt) { or_gave_way(failure) } else { failure };
            settle_failed(call, policy, attempt, failure, Ok(outcome)).into()
        }
    }
}

/// Judges an attempt that has panicked.
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

/// Failure of an attempt that is redone because a loop in it gave way. Only a poisoned device takes precedence.
fn or_gave_way(failure: Failure) -> Failure {
    match failure.class {
        Class::Poisoned => failure,
        _ => Failure::new(Class::OutOfMemory, "a loop inside yielded to other users of the device"),
    }
}

/// Returns the error that is passed on; a panic continues here.
fn pass_on<R>(outcome: Result<R, Panic>) -> R {
    outcome.unwrap_or_else(|panic| shield::pass_on(panic))
}

/// Returns the error of an item that does not fit by itself, once all others are done. A panic continues here.
#[cold]
pub(crate) fn pass_on_left_out<R>(call: &mut Call<'_>, item: LeftOutItem<R>) -> R {
    call.gives_up_left_out(item.cost);
    item.pass_on()
}

/// Continues without an item that does not fit by itself: cleans up as before a retry, then reports the item.
///
/// Unless the call takes such items, the first failure is kept. The others are only in the report.
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
        // The failure is passed on in the end. With several ranks, the call ends now.
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
