//! Async functions with an attribute: the steps of the loop that stands in the expansion.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Range;

use crate::call_site::{Above, Origin};
use crate::chunk::{Chunked, Held};
use crate::engine::asynchronous::Attempts;
use crate::engine::call::Call;
use crate::engine::drive::Settled;
use crate::engine::pieces::Extent;
use crate::execute::{Size, Undo, With, length};
use crate::outcome::{Completes, Judge};
use crate::policy::Policy;

/// One call of an async function that returns `R`. `F`: the form, which gives a piece to its body.
pub struct Task<'a, P: Policy, K, R, F> {
    attempts: Attempts<'a, P, K>,
    form: F,
    returns: PhantomData<fn() -> R>,
}

/// A batch: one piece, at the size that succeeds.
#[derive(Debug)]
pub struct OfBatch;

/// Consecutive pieces from `start`.
#[derive(Debug)]
pub struct OfPieces<S> {
    start: S,
    dim: isize,
}

/// Form of an async function: a batch or pieces.
pub trait Form {
    /// True for a batch, which ends with its first success.
    const SINGLE: bool;
}

impl Form for OfBatch {
    const SINGLE: bool = true;
}

impl<S> Form for OfPieces<S> {
    const SINGLE: bool = false;
}

impl<'a, P: Policy, K, B: Undo> With<'a, P, K, B> {
    #[doc(hidden)]
    pub fn start_batch<R>(self) -> Task<'a, P, K, R, OfBatch> {
        self.task(Extent::BATCH, OfBatch)
    }

    #[doc(hidden)]
    pub fn start_range<R, S: Size>(self, start: S, end: S) -> Task<'a, P, K, R, OfPieces<S>> {
        let (items, dim) = (length(start, end, || self.core.name_at(None)), self.core.dim);
        self.task(Extent::of(items), OfPieces { start, dim })
    }

    #[doc(hidden)]
    pub fn start_chunked<R, C, S: Size>(self, data: &impl Chunked<C>) -> Task<'a, P, K, R, OfPieces<S>> {
        let (dim, items) = (self.core.dim, data.extent(self.core.dim));
        self.shaped(data).task(Extent::of(items), OfPieces { start: S::from_count(0), dim })
    }

    fn task<R, F>(self, extent: Extent, form: F) -> Task<'a, P, K, R, F> {
        let Self { core, judge, undo: _, unit: _ } = self;
        // An async function cannot know the line that called it.
        let origin = Origin { site: core.site, caller: None, above: Above::Unknown };
        let parts = (core.name, origin, extent);
        let mut call = Call::new(core.cache, &core.policy, &core.options, parts);
        call.open(&core.policy, &core.options);
        Task { attempts: Attempts::of(call, core.policy, judge), form, returns: PhantomData }
    }
}

impl<P: Policy, K, R, F: Form> Task<'_, P, K, R, F> {
    /// Begins the next attempt; false if no work is left.
    pub fn begin(&mut self) -> impl Future<Output = bool> {
        self.attempts.begin()
    }

    /// Runs the attempt. Returns the outcome if it ends the call.
    pub async fn attempt<A: Future<Output = R>, M>(&mut self, body: A) -> Option<R>
    where
        K: Judge<R, M>,
    {
        let alone = self.attempts.run(body).await;
        last(alone.without_ranks(), F::SINGLE)
    }

    /// Runs the attempt, and waits until ranks agree on its result. Returns the outcome if it ends the call.
    pub async fn agreed<A: Future<Output = R>, M>(&mut self, body: A) -> Option<R>
    where
        K: Judge<R, M>,
    {
        let alone = self.attempts.run(body).await;
        let settled = self.attempts.agree(alone).await;
        last(settled, F::SINGLE)
    }

    /// Runs `undo` if the attempt will be retried.
    pub async fn undo(&mut self, undo: impl Future) {
        self.attempts.undo(undo).await;
    }
}

/// Returns the outcome if it ends the call.
fn last<R>(settled: Settled<R>, single: bool) -> Option<R> {
    match settled {
        Settled::Succeeded(_) if !single => None,
        Settled::Succeeded(outcome) | Settled::Failed(outcome) => Some(outcome),
        Settled::LeftOut(item) => Some(item.pass_on()),
        Settled::Retry(_) => None,
    }
}

impl<P: Policy, K, R> Task<'_, P, K, R, OfBatch> {
    /// The batch size of the attempt.
    pub fn sizes<S: Size>(&self) -> S {
        S::from_count(self.attempts.piece().len())
    }

    /// Returns the outcome of a batch that another rank has ended. Otherwise the outcome is returned inside the loop.
    ///
    /// # Panics
    /// If the outcome has no place for that rank's error.
    pub fn finish<M>(mut self) -> R
    where
        K: Judge<R, M>,
    {
        self.attempts.ended().expect("a batch returns when its attempt is done")
    }
}

impl<P: Policy, K, R, S: Size> Task<'_, P, K, R, OfPieces<S>> {
    /// Start and end of the attempt.
    pub fn sizes(&self) -> (S, S) {
        let Range { start, end } = self.attempts.piece();
        (self.form.start.plus(start), self.form.start.plus(end))
    }

    /// A view of the attempt's items; `None` if there was no memory for it and it will be retried.
    pub fn hold<'d, D: Chunked<C>, C>(&mut self, data: &'d mut D) -> Option<Held<'d, D, C>> {
        let (dim, piece) = (self.form.dim, self.attempts.piece());
        self.attempts.prepare(|| data.hold(dim, piece))
    }

    /// Returns the outcome once all pieces have succeeded, or another rank has ended the call.
    pub fn finish<M>(mut self) -> R
    where
        R: Completes,
        K: Judge<R, M>,
    {
        self.attempts.ended().unwrap_or_else(R::completed)
    }
}

impl<P: Policy, K, R, F> fmt::Debug for Task<'_, P, K, R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("piece", &self.attempts.piece()).finish_non_exhaustive()
    }
}
