//! The asynchronous driver: the steps of [`next_piece`](super::drive::next_piece), one by one.
//!
//! The loop around these steps stands in the code that has the body: in a stream, or in the expansion of an
//! attribute, because only there each attempt can be a plain async block that borrows the function's arguments. No
//! outcome is held across an await, so the future is `Send` if the body's is, even if its output is not. If it is
//! dropped at an await, it drops the attempt and then the call, which stores the settled size.
//!
//! # Why
//!
//! A retry yields to the executor once, because another task may be the one that frees the memory. So the driver is a
//! type whose steps are awaited, not a function that takes the body.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::Range;
use std::task::{Poll, Waker};

use super::attempt::{Attempt, Guard, Receivers, poll_guarded};
use super::call::Call;
use super::drive::{Alone, Cleanup, LeftOutItem, Settled, agreed, leave_out, settle, settle_panic};
use crate::nesting::{self, Inside, Nesting};
use crate::observe::Answer;
use crate::observe::witness::Witnessed;
use crate::outcome::Judge;
use crate::policy::Policy;
use crate::ranks::awaited;
use crate::shield::pass_on;
use crate::thread_state::Before;

/// The attempts of one call.
pub(crate) struct Attempts<'a, P: Policy, K> {
    /// The current attempt, until it is cleaned up. Dropped before the call, whose observers may wait for its turn.
    attempt: Attempt,
    pub(crate) call: Call<'a>,
    policy: P,
    judge: K,
    /// Answer to the failure of the current attempt, whose memory has to be released before the next.
    failed: Option<Answer>,
}

impl<'a, P: Policy, K> Attempts<'a, P, K> {
    pub(crate) fn of(call: Call<'a>, policy: P, judge: K) -> Self {
        Self { attempt: Attempt::none(), call, policy, judge, failed: None }
    }

    /// Begins the next attempt. Returns false if no work is left.
    ///
    /// After a failure it first releases cached memory and yields to other tasks, which may free memory.
    pub(crate) async fn begin(&mut self) -> bool {
        let last = mem::replace(&mut self.attempt, Attempt::none());
        if let Some(answer) = self.failed.take() {
            {
                // Hooks and observers run while the task is polled: a loop of theirs must not wait.
                let _polled = nesting::Inside::of(Some(&Nesting::now().of_task()));
                self.call.release(&self.policy, last, answer);
            }
            yield_now().await;
        } else {
            drop(last);
        }
        while let Some(cast) = self.call.owed() {
            let verdict = awaited(cast).await;
            self.call.follow_vote(verdict);
        }
        if self.call.is_done() {
            return false;
        }
        self.call.begin_async(&mut self.attempt).await;
        true
    }

    /// Prepares a value that the body needs, within the attempt; `None` if that fails and will be retried.
    pub(crate) fn prepare<T>(&mut self, part: impl FnOnce() -> T) -> Option<T> {
        let _inside = self.inside();
        let entered = self.call.witnessed().and_then(Witnessed::enter);
        let guard = Guard::of_attempt(self.attempt.retryable);
        let prepared = guard.run(&Before::now(), part, || self.call.takes_left());
        drop(entered);
        let panic = match prepared {
            Ok(prepared) => return Some(prepared),
            Err(panic) => panic,
        };
        // A failure that is not retried continues as a panic, and an item that is left out needs no preparation.
        match settle_panic::<Infallible>(&mut self.call, &self.policy, &mut self.attempt, panic) {
            Settled::Retry(answer) => self.failed = Some(answer),
            Settled::LeftOut(_) => {}
            Settled::Succeeded(never) | Settled::Failed(never) => match never {},
        }
        None
    }

    /// Runs the attempt, and judges its result on this rank.
    pub(crate) async fn run<R, M>(&mut self, body: impl Future<Output = R>) -> Alone<R>
    where
        K: Judge<R, M>,
    {
        let mut left = None;
        let receivers = Receivers { witnessed: self.call.witnessed(), left: Some(&mut left) };
        let (before, result) = self.attempt.run_async(receivers, body).await;
        let _inside = self.inside();
        if let Some(left) = left {
            self.call.leaves(left);
        }
        let ended = (result, &before);
        let votes = |_: &mut Call<'_>, _: &mut Attempt, value| Alone::Votes(value);
        let alone = settle(&mut self.call, &self.policy, &mut self.attempt, ended, (&self.judge, votes));
        match &alone {
            Alone::Settled(Settled::Retry(answer)) => self.failed = Some(*answer),
            // The memory of an attempt that succeeded is the caller's, so the turn ends here.
            Alone::Settled(Settled::Succeeded(_) | Settled::Failed(_)) => self.attempt.end(),
            Alone::Settled(Settled::LeftOut(_)) | Alone::Votes(_) => {}
        }
        alone
    }

    /// Returns the result of the attempt on all ranks, if the call has several.
    ///
    /// The value is held across this await, so a future that contains it is `Send` only if the value is.
    pub(crate) async fn agree<R, M>(&mut self, alone: Alone<R>) -> Settled<R>
    where
        K: Judge<R, M>,
    {
        let value = match alone {
            Alone::Settled(settled) => return settled,
            Alone::Votes(value) => value,
        };
        let verdict = awaited(self.call.votes(&self.policy, &mut self.attempt)).await;
        let _inside = self.inside();
        let settled = agreed(&mut self.call, &self.attempt, value, verdict, &self.judge);
        if let Settled::Retry(answer) = &settled {
            self.failed = Some(*answer);
        }
        settled
    }

    /// Returns the outcome of the call if another rank has ended it.
    pub(crate) fn ended<R, M>(&mut self) -> Option<R>
    where
        K: Judge<R, M>,
    {
        self.call.ended().map(|error| self.judge.elsewhere(&error))
    }

    /// Runs `undo` if the attempt will be retried. Its values are dropped by now.
    pub(crate) async fn undo(&mut self, undo: impl Future) {
        if self.failed.is_some() {
            let (_, result) =
                poll_guarded(Guard::NOTHING, self.attempt.nesting, Receivers::default(), undo).await;
            result.map_or_else(|panic| pass_on(panic), drop);
        }
    }

    /// Continues without an item that does not fit by itself.
    pub(crate) fn leave_out<R>(
        &mut self,
        cleanup: &mut impl Cleanup,
        item: LeftOutItem<R>,
        left_out: &mut Option<LeftOutItem<R>>,
    ) {
        let attempt = mem::replace(&mut self.attempt, Attempt::none());
        leave_out(&mut self.call, &self.policy, cleanup, (item, attempt), left_out);
    }

    /// Enters the attempt, for code that runs between two polls of its body.
    pub(crate) fn inside(&self) -> Inside {
        self.attempt.enter()
    }

    /// The items of the attempt.
    pub(crate) fn piece(&self) -> Range<usize> {
        self.attempt.piece.clone()
    }
}

/// Lets other tasks of the executor run.
pub(crate) async fn yield_now() {
    pause(Waker::wake_by_ref).await;
}

/// Is pending once. `then` receives the task's waker.
pub(crate) async fn pause(then: impl Fn(&Waker)) {
    let mut paused = false;
    poll_fn(|context| {
        if mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        then(context.waker());
        Poll::Pending
    })
    .await;
}
