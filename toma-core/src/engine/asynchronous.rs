//! The asynchronous driver: the steps of [`drive`](super::drive::drive), one by one.
//!
//! The loop around them belongs to whoever has the body: to the expansion of an attribute, because
//! only there can each attempt be a plain async block that borrows the function's arguments, and to a
//! stream. No outcome is held across an await, so that the future is `Send` when the body's is, even
//! where its output is not. Dropped at any await, it drops the attempt and then the call, which
//! remembers what it had settled.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::Range;
use std::task::Poll;

use super::attempt::{self, attempt_async};
use super::call::Call;
use super::drive::{Turn, settle, settle_panic};
use crate::nesting::{Inside, Surroundings};
use crate::outcome::Judge;
use crate::policy::Policy;
use crate::shield::{Panic, Retryable, pass_on};
#[cfg(feature = "testing")]
use crate::testing::inject;
use crate::thread_state::Before;

/// The attempts of one call.
pub(crate) struct Attempts<'a, P: Policy, K> {
    pub(crate) call: Call<'a, P>,
    judge: K,
    piece: Range<usize>,
    retryable: Retryable,
    /// Those of the attempt that runs: of its body and of all that follows until it is cleaned up,
    /// whoever polls meanwhile.
    surroundings: Option<Surroundings>,
    /// It has failed, and its memory has to be given back before the next.
    fails: bool,
}

impl<'a, P: Policy, K> Attempts<'a, P, K> {
    pub(crate) fn of(call: Call<'a, P>, judge: K) -> Self {
        let retryable = Retryable::NOTHING;
        Self { call, judge, piece: 0..0, retryable, surroundings: None, fails: false }
    }

    /// Begins the next attempt; false when all is done.
    ///
    /// After a failure it releases cached memory and lets other tasks of the executor run first: they
    /// may be the ones to free memory.
    pub(crate) async fn begin(&mut self) -> bool {
        if self.call.is_done() {
            return false;
        }
        if mem::take(&mut self.fails) {
            self.call.release();
            yield_now().await;
        }
        if !self.call.is_plain() {
            self.call.enter_async().await;
        }
        self.surroundings = self.call.surroundings().map(Surroundings::of_task);
        let _inside = Inside::of(self.surroundings);
        (self.piece, self.retryable) = self.call.begin();
        true
    }

    /// Makes what the body needs, within the attempt; `None` when that fails and will be tried again.
    pub(crate) fn prepare<T>(&mut self, part: impl FnOnce() -> T) -> Option<T> {
        let _inside = self.inside();
        let panic = match attempt::attempt(self.retryable, &Before::now(), part) {
            Ok(prepared) => return Some(prepared),
            Err(panic) => panic,
        };
        // What is not tried again goes on as a panic, and an item that is left out needs nothing like this.
        let turn = settle_panic::<Infallible>(&mut self.call, self.retryable, panic);
        self.fails = matches!(turn, Turn::Retry);
        None
    }

    /// Runs the attempt, and looks at what it came to.
    pub(crate) async fn run<R, M>(&mut self, body: impl Future<Output = R>) -> Turn<R>
    where
        K: Judge<R, M>,
    {
        let terms = (self.retryable, self.surroundings);
        let (before, result) = attempt(&mut self.call.is_injected, terms, self.piece.len(), body).await;
        let _inside = self.inside();
        let turn = settle(&mut self.call, (self.retryable, &before), result, &self.judge);
        self.fails = matches!(turn, Turn::Retry);
        turn
    }

    /// Undoes what the attempt has done, if it will be made again; its values are dropped by now.
    pub(crate) async fn undo(&mut self, undo: impl Future) {
        if self.fails {
            let terms = (Retryable::NOTHING, self.surroundings);
            let (_, result) = attempt_async(terms, undo).await;
            result.map_or_else(|panic| pass_on(panic), drop);
        }
    }

    /// For what runs between two polls of the attempt's own.
    pub(crate) fn inside(&self) -> Inside {
        Inside::of(self.surroundings)
    }

    /// The items of the attempt.
    pub(crate) fn piece(&self) -> Range<usize> {
        self.piece.clone()
    }
}

/// One attempt; with the feature `testing`, failures may be injected where a retry is possible.
async fn attempt<F: Future>(
    is_injected: &mut bool,
    terms: (Retryable, Option<Surroundings>),
    size: usize,
    body: F,
) -> (Before, Result<F::Output, Panic>) {
    #[cfg(feature = "testing")]
    if let Some(injected) = inject::ask(terms.0, size) {
        *is_injected = true;
        return attempt_async(terms, injected.around_async(body)).await;
    }
    let _ = (size, is_injected);
    attempt_async(terms, body).await
}

/// Lets other tasks of the executor run.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
