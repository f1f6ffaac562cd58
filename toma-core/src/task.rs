//! The asynchronous driver, as the attributes' expansions use it.
//!
//! The loop itself is in the expansion, because only there can each attempt be a plain async block
//! that borrows the function's arguments, which keeps the future `Send` when the body's is.
//! Dropping the future at any await drops the attempt and then the call, which remembers what it
//! had settled.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::ops::Range;
use std::task::Poll;

use crate::cache::Origin;
use crate::chunk::{Chunked, Held};
use crate::engine::attempt::Payload;
use crate::engine::call::Call;
use crate::engine::drive::{self, Done, Turn, attempt_async};
use crate::engine::machine::{Extent, Retryable};
use crate::execute::{Size, Undo, With, length};
use crate::outcome::{Completes, Judge};
use crate::policy::Policy;

/// One call of an async function; `F` is what a piece means to its body.
pub struct Task<'a, P: Policy, K, F> {
    call: Call<'a, P>,
    judge: K,
    form: F,
    piece: Range<usize>,
    retryable: Retryable,
}

impl<P: Policy, K, F> std::fmt::Debug for Task<'_, P, K, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("piece", &self.piece).finish_non_exhaustive()
    }
}

/// What the expansion does after an attempt.
#[derive(Debug)]
pub enum Next<R> {
    /// Return this.
    Done(R),
    /// The failed values are dropped: undo, recover, and go around again.
    Retry,
    /// Go around for the next piece.
    Piece,
}

/// One piece of whatever size succeeds.
#[derive(Debug)]
pub struct OfBatch<S>(PhantomData<fn() -> S>);

/// Consecutive pieces from `start`.
#[derive(Debug)]
pub struct OfPieces<S> {
    start: S,
    dim: isize,
}

/// Whether an attempt that succeeded ends the call.
pub trait Form {
    /// True for a batch.
    const SINGLE: bool;
}

impl<S> Form for OfBatch<S> {
    const SINGLE: bool = true;
}

impl<S> Form for OfPieces<S> {
    const SINGLE: bool = false;
}

impl<'a, P: Policy, K, B: Undo> With<'a, P, K, B> {
    #[doc(hidden)]
    pub fn start_batch<S: Size>(self) -> Task<'a, P, K, OfBatch<S>> {
        self.task(Extent::Batch, OfBatch(PhantomData))
    }

    #[doc(hidden)]
    pub fn start_range<S: Size>(self, start: S, end: S) -> Task<'a, P, K, OfPieces<S>> {
        let dim = self.core.dim;
        self.task(Extent::Items(length(start, end)), OfPieces { start, dim })
    }

    #[doc(hidden)]
    pub fn start_chunked<S: Size, D: Chunked>(self, data: &D) -> Task<'a, P, K, OfPieces<S>> {
        let (dim, items) = (self.core.dim, data.extent(self.core.dim));
        self.task(Extent::Items(items), OfPieces { start: S::from_count(0), dim })
    }

    fn task<F>(self, extent: Extent, form: F) -> Task<'a, P, K, F> {
        // An async function cannot know the line that called it.
        let Self { core, judge, undo: _ } = self;
        let origin = Origin { site: core.site, caller: None, entry: 0 };
        let mut call = Call::closed(core.cache, core.policy, &core.options, (core.name, origin, extent));
        call.open(&core.options);
        Task { call, judge, form, piece: 0..0, retryable: Retryable::NOTHING }
    }
}

impl<P: Policy, K, F: Form> Task<'_, P, K, F> {
    /// Runs one attempt; a panic comes back as its payload.
    pub fn attempt<A: Future>(
        &self,
        body: A,
    ) -> impl Future<Output = Result<A::Output, Payload>> + use<A, P, K, F> {
        attempt_async(self.retryable, self.piece.clone(), body)
    }

    /// Judges what the attempt came to.
    pub fn end<R, M>(&mut self, result: Result<R, Payload>) -> Next<R>
    where
        K: Judge<R, M>,
    {
        match drive::settle(&mut self.call, self.retryable, result, &self.judge) {
            Turn::Done(Done::Succeeded(_)) if !F::SINGLE => Next::Piece,
            Turn::Done(Done::Succeeded(outcome) | Done::Failed(outcome)) => Next::Done(outcome),
            Turn::Retry => Next::Retry,
        }
    }

    /// Releases cached memory, and lets other tasks of the executor run before the retry: they may
    /// be the ones to free memory.
    pub async fn recover(&mut self) {
        self.call.release();
        let mut yielded = false;
        poll_fn(|context| {
            if std::mem::replace(&mut yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn begin(&mut self) -> Range<usize> {
        let (piece, retryable) = self.call.begin();
        self.retryable = retryable;
        self.piece = piece.clone();
        piece
    }
}

impl<P: Policy, K, S: Size> Task<'_, P, K, OfBatch<S>> {
    /// The batch size of the coming attempt.
    pub fn size(&mut self) -> Option<S> {
        Some(S::from_count(self.begin().len()))
    }

    /// A batch ends with its one piece, inside the loop.
    pub fn finish(self) -> ! {
        unreachable!("a batch returns when its attempt is done")
    }
}

impl<P: Policy, K, S: Size> Task<'_, P, K, OfPieces<S>> {
    /// Start and end of the coming attempt; `None` when all is done.
    pub fn piece(&mut self) -> Option<(S, S)> {
        if self.call.is_done() {
            return None;
        }
        let Range { start, end } = self.begin();
        Some((self.form.start.plus(start), self.form.start.plus(end)))
    }

    /// A view of the coming attempt's items.
    pub fn hold<'d, D: Chunked>(&self, data: &'d mut D) -> Held<'d, D> {
        data.hold(self.form.dim, self.piece.clone())
    }

    /// All pieces succeeded.
    pub fn finish<R: Completes>(self) -> R {
        R::completed()
    }
}
