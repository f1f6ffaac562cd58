//! The asynchronous driver, as the attributes' expansions use it.
//!
//! The loop itself is in the expansion, because only there can each attempt be a plain async block
//! that borrows the function's arguments, which keeps the future `Send` when the body's is. No
//! outcome is held across an await, so the outcome need not be `Send`. Dropping the future at any
//! await drops the attempt and then the call, which remembers what it had settled.

use std::fmt;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::mem;
use std::ops::Range;
use std::task::Poll;

use crate::cache::{Above, Origin};
use crate::chunk::{Chunked, Held};
use crate::engine::call::Call;
use crate::engine::drive::{self, Done, Turn, attempt_async};
use crate::engine::machine::Retryable;
use crate::engine::surroundings::Inside;
use crate::execute::{Size, Undo, With};
use crate::outcome::{Completes, Judge};
use crate::policy::Policy;

/// One call of an async function that returns `R`; `F` is what a piece means to its body.
pub struct Task<'a, P: Policy, K, R, F> {
    call: Call<'a, P>,
    judge: K,
    form: F,
    piece: Range<usize>,
    retryable: Retryable,
    retries: bool,
    returns: PhantomData<fn() -> R>,
}

/// One piece of whatever size succeeds.
#[derive(Debug)]
pub struct OfBatch;

/// Consecutive pieces from `start`.
#[derive(Debug)]
pub struct OfPieces {
    start: i128,
    dim: isize,
}

/// Whether an attempt that succeeded ends the call.
pub trait Form {
    /// True for a batch.
    const SINGLE: bool;
}

impl Form for OfBatch {
    const SINGLE: bool = true;
}

impl Form for OfPieces {
    const SINGLE: bool = false;
}

impl<'a, P: Policy, K, B: Undo> With<'a, P, K, B> {
    #[doc(hidden)]
    pub fn start_batch<R>(self) -> Task<'a, P, K, R, OfBatch> {
        self.task(None, OfBatch)
    }

    #[doc(hidden)]
    pub fn start_range<R>(self, start: impl Size, end: impl Size) -> Task<'a, P, K, R, OfPieces> {
        let (start, end, dim) = (start.widen(), end.widen(), self.core.dim);
        assert!(start <= end, "start {start}: must be at most end {end}");
        let items = usize::try_from(end - start).expect("a range of items fits in the address space");
        self.task(Some(items), OfPieces { start, dim })
    }

    #[doc(hidden)]
    pub fn start_chunked<R, C>(self, data: &impl Chunked<C>) -> Task<'a, P, K, R, OfPieces> {
        let (dim, items) = (self.core.dim, data.extent(self.core.dim));
        self.task(Some(items), OfPieces { start: 0, dim })
    }

    fn task<R, F>(self, items: Option<usize>, form: F) -> Task<'a, P, K, R, F> {
        let Self { core, judge, undo: _, unit: _ } = self;
        // An async function cannot know the line that called it.
        let origin = Origin { site: core.site, caller: None, above: Above::Unknown };
        let mut call = Call::closed(core.cache, core.policy, &core.options, (core.name, origin, items));
        call.open(&core.options);
        let (piece, retryable, retries, returns) = (0..0, Retryable::NOTHING, false, PhantomData);
        Task { call, judge, form, piece, retryable, retries, returns }
    }
}

impl<P: Policy, K, R, F: Form> Task<'_, P, K, R, F> {
    /// Runs one attempt. The outcome comes back when it ends the call.
    pub async fn attempt<A: Future<Output = R>, M>(&mut self, body: A) -> Option<R>
    where
        K: Judge<R, M>,
    {
        let terms = (self.retryable, self.call.surroundings());
        let (before, result) = attempt_async(terms, self.piece.clone(), body).await;
        let _inside = Inside::of(self.call.surroundings());
        match drive::settle(&mut self.call, (self.retryable, &before), result, &self.judge) {
            Turn::Done(Done::Succeeded(_)) if !F::SINGLE => None,
            Turn::Done(Done::Succeeded(outcome) | Done::Failed(outcome)) => Some(outcome),
            Turn::Done(Done::SetAside(lost)) => Some(lost.pass_on()),
            Turn::Retry => {
                self.retries = true;
                None
            }
        }
    }

    /// Whether the attempt failed and will be made again: its values are dropped by now.
    pub fn must_undo(&self) -> bool {
        self.retries
    }

    /// Before a retry, releases cached memory and lets other tasks of the executor run: they may be
    /// the ones to free memory.
    async fn begin(&mut self) -> Range<usize> {
        if mem::take(&mut self.retries) {
            self.call.release();
            yield_now().await;
        }
        self.call.enter_async().await;
        let _inside = Inside::of(self.call.surroundings());
        (self.piece, self.retryable) = self.call.begin();
        self.piece.clone()
    }
}

impl<P: Policy, K, R> Task<'_, P, K, R, OfBatch> {
    /// The batch size of the coming attempt.
    pub async fn next<S: Size>(&mut self) -> Option<S> {
        Some(S::from_count(self.begin().await.len()))
    }

    /// A batch ends with its one piece, inside the loop.
    pub fn finish(self) -> R {
        unreachable!("a batch returns when its attempt is done")
    }
}

impl<P: Policy, K, R> Task<'_, P, K, R, OfPieces> {
    /// Start and end of the coming attempt; `None` when all is done.
    pub async fn next<S: Size>(&mut self) -> Option<(S, S)> {
        if self.call.is_done() {
            return None;
        }
        let Range { start, end } = self.begin().await;
        let position = |offset: usize| S::narrow(self.form.start + offset.widen());
        Some((position(start), position(end)))
    }

    /// A view of the coming attempt's items.
    pub fn hold<'d, D: Chunked<C>, C>(&self, data: &'d mut D) -> Held<'d, D, C> {
        data.hold(self.form.dim, self.piece.clone())
    }

    /// All pieces succeeded.
    pub fn finish(self) -> R
    where
        R: Completes,
    {
        R::completed()
    }
}

impl<P: Policy, K, R, F> fmt::Debug for Task<'_, P, K, R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("piece", &self.piece).finish_non_exhaustive()
    }
}

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
