//! The forms: what a piece means to the body. Everything else is the engine's.
//!
//! The stack walk counts frames from the caller of the function that [`With::begin`] is inlined
//! into. So these functions are never inlined, and the covers over them always: how many frames of
//! ours there are must not depend on the optimizer.
#![expect(clippy::inline_always, reason = "the number of our own frames must not depend on the optimizer")]

use std::ops::{ControlFlow, Range};
use std::panic::Location;

use super::size::{Size, length};
use super::with::With;
use crate::cache::Origin;
use crate::chunk::{Chunk, Chunked};
use crate::engine::call::Call;
use crate::engine::drive::{Done, Work, drive};
use crate::engine::machine::Extent;
use crate::observe::{Name, NameKind};
use crate::outcome::{Completes, Judge, Outcome};
use crate::policy::Policy;

type Caller = &'static Location<'static>;

impl<'a, P: Policy, K, B: Undo> With<'a, P, K, B> {
    /// See [`execute::batch`](super::batch).
    #[track_caller]
    #[inline(always)]
    pub fn batch<R, M>(self, initial: usize, body: impl FnMut(usize) -> R) -> R
    where
        K: Judge<R, M>,
    {
        self.initial(initial).batch_at(Location::caller(), body)
    }

    /// See [`execute::range`](super::range).
    #[track_caller]
    #[inline(always)]
    pub fn range<R, M>(self, range: Range<usize>, initial: usize, body: impl FnMut(usize, usize) -> R) -> R
    where
        R: Completes,
        K: Judge<R, M>,
    {
        self.shifted(range.start).initial(initial).range_at(
            Location::caller(),
            (range.start, range.end),
            body,
        )
    }

    /// See [`execute::chunked`](super::chunked).
    #[track_caller]
    #[inline(always)]
    pub fn chunked<D, R, M>(
        self,
        data: D,
        initial: usize,
        body: impl FnMut(Chunk<'_, D>, usize, usize) -> R,
    ) -> R
    where
        D: Chunked,
        R: Completes,
        K: Judge<R, M>,
    {
        self.initial(initial).chunked_at(Location::caller(), data, body)
    }

    /// See [`execute::map`](super::map).
    #[track_caller]
    #[inline(always)]
    pub fn map<R, S, M>(
        self,
        range: Range<usize>,
        initial: usize,
        body: impl FnMut(usize, usize) -> R,
    ) -> R::Of<Vec<R::Value>>
    where
        R: Outcome<S>,
        K: Judge<R, M>,
    {
        self.shifted(range.start).initial(initial).map_at(Location::caller(), range, body)
    }

    /// See [`execute::fold`](super::fold).
    #[track_caller]
    #[inline(always)]
    pub fn fold<R, S, M>(
        self,
        range: Range<usize>,
        initial: usize,
        init: R::Value,
        body: impl FnMut(&R::Value, usize, usize) -> R,
    ) -> R::Of<R::Value>
    where
        R: Outcome<S>,
        K: Judge<R, M>,
    {
        self.shifted(range.start).initial(initial).fold_at(Location::caller(), range, init, body)
    }
}

/// The same with the calling line as a value, and sizes of any integer type.
impl<'a, P: Policy, K, B: Undo> With<'a, P, K, B> {
    #[inline(never)]
    pub(crate) fn batch_at<S, R, M>(self, caller: Caller, mut body: impl FnMut(S) -> R) -> R
    where
        S: Size,
        K: Judge<R, M>,
    {
        let (mut call, judge, mut undo) = self.begin(caller, Extent::Batch);
        let run = |piece: Range<usize>| body(S::from_count(piece.len()));
        run_batch(&mut call, &judge, Body { run, undo: &mut undo })
    }

    #[inline(never)]
    pub(crate) fn range_at<S, R, M>(
        self,
        caller: Caller,
        (start, end): (S, S),
        mut body: impl FnMut(S, S) -> R,
    ) -> R
    where
        S: Size,
        R: Completes,
        K: Judge<R, M>,
    {
        let (mut call, judge, mut undo) = self.begin(caller, Extent::Items(length(start, end)));
        let run = |piece: Range<usize>| body(start.plus(piece.start), start.plus(piece.end));
        run_all(&mut call, &judge, Body { run, undo: &mut undo })
    }

    #[inline(never)]
    pub(crate) fn chunked_at<D, S, R, M>(
        self,
        caller: Caller,
        mut data: D,
        mut body: impl FnMut(Chunk<'_, D>, S, S) -> R,
    ) -> R
    where
        D: Chunked,
        S: Size,
        R: Completes,
        K: Judge<R, M>,
    {
        let dim = self.dim;
        let items = data.extent(dim);
        let (mut call, judge, mut undo) = self.begin(caller, Extent::Items(items));
        let run = |piece: Range<usize>| {
            let mut held = data.hold(dim, piece.clone());
            body(D::lend(&mut held), S::from_count(piece.start), S::from_count(piece.end))
        };
        run_all(&mut call, &judge, Body { run, undo: &mut undo })
    }

    #[inline(never)]
    pub(super) fn map_at<R, S, M>(
        self,
        caller: Caller,
        range: Range<usize>,
        mut body: impl FnMut(usize, usize) -> R,
    ) -> R::Of<Vec<R::Value>>
    where
        R: Outcome<S>,
        K: Judge<R, M>,
    {
        let start = range.start;
        let (mut call, judge, mut undo) = self.begin(caller, Extent::Items(length(start, range.end)));
        let run = |piece: Range<usize>| body(start + piece.start, start + piece.end);
        let mut work = Body { run, undo: &mut undo };
        let mut values = Vec::new();
        while !call.is_done() {
            match branch(drive(&mut call, &judge, &mut work)) {
                ControlFlow::Continue(value) => values.push(value),
                ControlFlow::Break(error) => return error,
            }
        }
        R::of(values)
    }

    #[inline(never)]
    pub(super) fn fold_at<R, S, M>(
        self,
        caller: Caller,
        range: Range<usize>,
        init: R::Value,
        mut body: impl FnMut(&R::Value, usize, usize) -> R,
    ) -> R::Of<R::Value>
    where
        R: Outcome<S>,
        K: Judge<R, M>,
    {
        let start = range.start;
        let (mut call, judge, mut undo) = self.begin(caller, Extent::Items(length(start, range.end)));
        let mut value = init;
        while !call.is_done() {
            let run = |piece: Range<usize>| body(&value, start + piece.start, start + piece.end);
            let done = drive(&mut call, &judge, &mut Body { run, undo: &mut undo });
            match branch(done) {
                ControlFlow::Continue(next) => value = next,
                ControlFlow::Break(error) => return error,
            }
        }
        R::of(value)
    }

    /// Sets the largest size; without it, a range or a chunked value starts with the whole.
    #[doc(hidden)]
    #[inline]
    pub fn initial(mut self, initial: usize) -> Self {
        self.options.sizes.initial = Some(initial);
        self
    }

    fn shifted(self, start: usize) -> With<'a, P, K, Shifted<B>> {
        let Self { cache, site, name, dim, options, policy, judge, undo } = self;
        With { cache, site, name, dim, options, policy, judge, undo: Shifted { undo, start } }
    }

    /// Begins the call. Inlined into the form, so that the local whose address it takes lives in
    /// the form's frame or above.
    #[inline(always)]
    pub(crate) fn begin(self, caller: Caller, extent: Extent) -> (Call<'a, P>, K, B) {
        let here = 0_u8;
        let entry = std::ptr::from_ref(&here).addr();
        let origin = Origin { site: self.site, caller: Some(caller), entry };
        self.begin_from(origin, extent)
    }

    #[inline]
    pub(crate) fn begin_from(self, origin: Origin, extent: Extent) -> (Call<'a, P>, K, B) {
        let name = match (self.name, self.site, origin.caller) {
            (Some(name), ..) => NameKind::Given(name),
            (None, Some(site), _) => NameKind::Given(site.name().into()),
            (None, None, Some(caller)) => NameKind::Line(caller),
            (None, None, None) => NameKind::Given("unnamed".into()),
        };
        let call = Call::new(self.cache, self.policy, &self.options, Name(name), (origin, extent));
        (call, self.judge, self.undo)
    }
}

#[inline]
pub(crate) fn run_batch<R, M>(
    call: &mut Call<'_, impl Policy>,
    judge: &impl Judge<R, M>,
    mut work: impl Work<R>,
) -> R {
    match drive(call, judge, &mut work) {
        Done::Succeeded(value) | Done::Failed(value) => value,
    }
}

#[inline]
pub(crate) fn run_all<R: Completes, M>(
    call: &mut Call<'_, impl Policy>,
    judge: &impl Judge<R, M>,
    mut work: impl Work<R>,
) -> R {
    while !call.is_done() {
        if let Done::Failed(error) = drive(call, judge, &mut work) {
            return error;
        }
    }
    R::completed()
}

#[inline]
fn branch<R: Outcome<S>, S, U>(done: Done<R>) -> ControlFlow<R::Of<U>, R::Value> {
    match done {
        Done::Succeeded(outcome) | Done::Failed(outcome) => outcome.branch(),
    }
}

/// What takes back a failed attempt; `()` has nothing to take back.
pub trait Undo {
    /// Takes back what the attempt at these items did.
    fn undo(&mut self, failed: Range<usize>);
}

impl Undo for () {
    #[inline]
    fn undo(&mut self, _: Range<usize>) {}
}

impl<F: FnMut(Range<usize>)> Undo for F {
    fn undo(&mut self, failed: Range<usize>) {
        self(failed);
    }
}

/// Counts from the start of the user's range.
pub(crate) struct Shifted<B> {
    undo: B,
    start: usize,
}

impl<B: Undo> Undo for Shifted<B> {
    fn undo(&mut self, failed: Range<usize>) {
        self.undo.undo(self.start + failed.start..self.start + failed.end);
    }
}

/// A body and its undo as two values.
struct Body<'u, F, B> {
    run: F,
    undo: &'u mut B,
}

impl<R, F: FnMut(Range<usize>) -> R, B: Undo> Work<R> for Body<'_, F, B> {
    #[inline]
    fn run(&mut self, piece: Range<usize>) -> R {
        (self.run)(piece)
    }

    fn undo(&mut self, failed: Range<usize>) {
        self.undo.undo(failed);
    }
}
