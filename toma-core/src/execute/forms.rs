//! The forms: how a piece becomes the arguments of the body. Everything else is the engine's.
//!
//! The stack walk counts frames from the caller of the function that [`Core::begin`] is inlined into. So these
//! functions are never inlined, and their public wrappers always: the number of our frames must not depend on the
//! optimizer.
//!
//! # Why
//!
//! `fold` lends the value so far to the body. So a failed attempt cannot have changed it, and nothing is
//! cloned.

use std::cell::{Cell, RefCell};
use std::ops::{ControlFlow, Range};
use std::panic::Location;

use super::dry::{Collect, DropAll, Dry, MoveOn};
use super::size::{Size, length};
use super::undo::{LacksView, Undo};
use super::unit::{AfterFailure, Job, Unit, Whole};
use super::with::{Core, With};
use crate::call_site::{Above, Origin};
use crate::chunk::{Chunk, Chunked};
use crate::engine::call::Call;
use crate::engine::drive::next_piece;
use crate::engine::pieces::Extent;
use crate::outcome::{Completes, Judge, Outcome};
use crate::policy::Policy;
use crate::predict::DryBody;

type Caller = &'static Location<'static>;

impl<P: Policy, K, B: Undo> With<'_, P, K, B> {
    /// See [`execute::batch`](super::batch).
    #[track_caller]
    #[inline(always)]
    pub fn batch<R, M>(self, initial: usize, body: impl FnMut(usize) -> R) -> R
    where
        K: Judge<R, M>,
    {
        self.initial(initial).batch_at(Location::caller(), body)
    }
}

impl<P: Policy, K, B: Undo, U: Unit> With<'_, P, K, B, U> {
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
    pub fn chunked<D, C, R, M>(
        self,
        data: D,
        initial: usize,
        body: impl FnMut(Chunk<'_, D, C>, usize, usize) -> R,
    ) -> R
    where
        D: Chunked<C>,
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
    pub fn fold<A, R, S, M>(
        self,
        range: Range<usize>,
        initial: usize,
        init: A,
        body: impl FnMut(&A, usize, usize) -> R,
    ) -> R::Of<A>
    where
        R: Outcome<S, Value = A>,
        K: Judge<R, M>,
    {
        self.shifted(range.start).initial(initial).fold_at(Location::caller(), range, init, body)
    }
}

impl<P, K, B, U> With<'_, P, K, B, U> {
    /// Returns the initial size of a loop that begins with all of its items, which may be fewer than the smallest size.
    #[doc(hidden)]
    pub fn initial_for_all(&self, items: usize) -> usize {
        items.max(self.core.options.sizes.floor().unwrap_or(1))
    }
}

/// The forms with the caller's location as a value, and sizes of any integer type.
impl<P: Policy, K, B: Undo> With<'_, P, K, B> {
    #[inline(never)]
    pub(crate) fn batch_at<S, R, M>(self, caller: Caller, mut body: impl FnMut(S) -> R) -> R
    where
        S: Size,
        K: Judge<R, M>,
    {
        let mut after = AfterFailure { undo: self.undo, unit: self.unit, start: self.core.start };
        let mut call = self.core.begin(caller, Extent::BATCH);
        self.core.open(&mut call, || {
            Dry::new(of_size(&mut body), &mut after.undo, &self.judge, DropAll).within(&self.core)
        });
        let mut work = Whole(Job { run: of_size(&mut body), after });
        let done = next_piece(&mut call, &self.core.policy, &self.judge, &mut work, &mut None);
        outcome(done.expect("a batch is one piece"))
    }
}

impl<P: Policy, K, B: Undo, U: Unit> With<'_, P, K, B, U> {
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
        let mut after = AfterFailure { undo: self.undo, unit: self.unit, start: self.core.start };
        let extent = after.extent(length(start, end, || self.core.name_at(Some(caller))));
        let (mut call, mut left_out) = (self.core.begin(caller, extent), None);
        self.core.open(&mut call, || {
            Dry::new(from(start, &mut body), &mut after.undo, &self.judge, DropAll).within(&self.core)
        });
        let mut work = Job { run: from(start, &mut body), after };
        while let Some(done) = next_piece(&mut call, &self.core.policy, &self.judge, &mut work, &mut left_out)
        {
            if let Err(error) = done {
                return error;
            }
        }
        R::completed()
    }

    #[track_caller]
    #[inline(always)]
    pub(crate) fn chunked_at<D, C, S, R, M>(
        self,
        caller: Caller,
        mut data: D,
        mut body: impl FnMut(Chunk<'_, D, C>, S, S) -> R,
    ) -> R
    where
        D: Chunked<C>,
        S: Size,
        R: Completes,
        K: Judge<R, M>,
    {
        let dim = self.core.dim;
        let items = data.extent(dim);
        let lacks_view = LacksView::default();
        let (form, mut undo) = self.shaped(&data).lend_undo();
        let undo = |failed: Range<usize>| {
            if !lacks_view.take() {
                undo.undo(failed);
            }
        };
        form.before_retry(undo).range_at(caller, (0, items), |start, end| {
            let mut held = if B::UNDOES {
                lacks_view.hold(|| data.hold(dim, start..end))
            } else {
                data.hold(dim, start..end)
            };
            body(D::lend(&mut held), S::from_count(start), S::from_count(end))
        })
    }

    #[inline(never)]
    pub(super) fn map_at<R, S, M>(
        self,
        caller: Caller,
        range: Range<usize>,
        body: impl FnMut(usize, usize) -> R,
    ) -> R::Of<Vec<R::Value>>
    where
        R: Outcome<S>,
        K: Judge<R, M>,
    {
        let mut values = Vec::new();
        match self.pieces_at(caller, range, body, |_, value| values.push(value)) {
            ControlFlow::Continue(()) => R::of(values),
            ControlFlow::Break(error) => error,
        }
    }

    /// Passes each piece, counted from 0, and its value to `keep`. Inlined into a form that is never inlined.
    #[inline(always)]
    pub(super) fn pieces_at<R, S, W, M>(
        self,
        caller: Caller,
        range: Range<usize>,
        mut body: impl FnMut(usize, usize) -> R,
        mut keep: impl FnMut(Range<usize>, R::Value),
    ) -> ControlFlow<R::Of<W>>
    where
        R: Outcome<S>,
        K: Judge<R, M>,
    {
        let mut after = AfterFailure { undo: self.undo, unit: self.unit, start: self.core.start };
        let start = range.start;
        let extent = after.extent(length(start, range.end, || self.core.name_at(Some(caller))));
        let (mut call, mut left_out) = (self.core.begin(caller, extent), None);
        self.core.open(&mut call, || {
            let hold = Collect(Vec::new());
            Dry::new(from(start, &mut body), &mut after.undo, &self.judge, hold).within(&self.core)
        });
        let (last, mut run) = (Cell::new((0, 0)), from(start, &mut body));
        let run = |piece: Range<usize>| {
            last.set((piece.start, piece.end));
            run(piece)
        };
        let mut work = Job { run, after };
        while let Some(done) = next_piece(&mut call, &self.core.policy, &self.judge, &mut work, &mut left_out)
        {
            let value = outcome(done).branch()?;
            let (start, end) = last.get();
            keep(start..end, value);
        }
        ControlFlow::Continue(())
    }

    #[inline(never)]
    pub(super) fn fold_at<A, R, S, M>(
        self,
        caller: Caller,
        range: Range<usize>,
        init: A,
        mut body: impl FnMut(&A, usize, usize) -> R,
    ) -> R::Of<A>
    where
        R: Outcome<S, Value = A>,
        K: Judge<R, M>,
    {
        let mut after = AfterFailure { undo: self.undo, unit: self.unit, start: self.core.start };
        let start = range.start;
        let extent = after.extent(length(start, range.end, || self.core.name_at(Some(caller))));
        let so_far = RefCell::new(init);
        let mut body = |start: usize, end: usize| body(&so_far.borrow(), start, end);
        let (mut call, mut left_out) = (self.core.begin(caller, extent), None);
        self.core.open(&mut call, || {
            let hold = MoveOn { so_far: &so_far, first: None };
            Dry::new(from(start, &mut body), &mut after.undo, &self.judge, hold).within(&self.core)
        });
        let mut work = Job { run: from(start, &mut body), after };
        while let Some(done) = next_piece(&mut call, &self.core.policy, &self.judge, &mut work, &mut left_out)
        {
            match outcome(done).branch() {
                ControlFlow::Continue(next) => drop(so_far.replace(next)),
                ControlFlow::Break(error) => return error,
            }
        }
        drop((call, work));
        R::of(so_far.into_inner())
    }

    /// Adds the shape of the data to the call, if it has a prediction.
    ///
    /// # Panics
    /// If the data is on another device than the option says.
    #[inline(always)]
    pub(crate) fn shaped<D: Chunked<C>, C>(mut self, data: &D) -> Self {
        if let Some(device) = self.core.options.device {
            data.places(&mut |place| same_place(place, device.name()));
        }
        if self.core.options.predict.is_some() {
            self.core.shape = data.shape_key(self.core.dim);
        }
        self
    }

    /// Sets the start of the user's range; pieces count from 0.
    #[inline]
    pub(super) fn shifted(mut self, start: usize) -> Self {
        self.core.start = start;
        self
    }
}

impl<'a, P: Policy> Core<'a, P> {
    /// Makes a call that is not open yet. Inlined into the form, so that the local whose address it takes lives in
    /// the form's frame.
    #[inline(always)]
    fn begin(&self, caller: Caller, extent: Extent) -> Call<'a> {
        let here = 0_u8;
        let entry = std::ptr::from_ref(&here).addr();
        let origin = Origin { site: self.site, caller: Some(caller), above: Above::From(entry) };
        let parts = (self.name.clone(), origin, extent);
        Call::new(self.cache, &self.policy, &self.options, parts)
    }

    /// Opens the call. The body is prepared for dry runs only if the call may ask for one.
    #[inline(always)]
    pub(super) fn open<D: DryBody>(&self, call: &mut Call<'a>, body: impl FnOnce() -> D) {
        if !call.opens_plain(&self.policy, &self.options) {
            call.open_with_stages(&self.policy, &self.options, Some(&mut body()));
        }
    }
}

/// # Panics
/// If the data is known to be in another memory than the device's. Only names that libraries give are compared.
#[track_caller]
fn same_place(data: &str, device: &str) {
    fn known(name: &str) -> Option<&str> {
        let is_gpu = name.starts_with("cuda:") || name.starts_with("metal:");
        if name == "host" { Some("cpu") } else { (is_gpu || name == "cpu").then_some(name) }
    }
    let differ = known(data).zip(known(device)).is_some_and(|(data, device)| data != device);
    assert!(!differ, "device {device}: the data is on {data}, so give the memory of that");
}

/// Adapts the body of a batch to pieces.
#[inline]
fn of_size<S: Size, R>(body: &mut impl FnMut(S) -> R) -> impl FnMut(Range<usize>) -> R {
    |piece| body(S::from_count(piece.len()))
}

/// Adapts the body of a range that begins at `start` to pieces.
#[inline]
pub(super) fn from<S: Size, R>(start: S, body: &mut impl FnMut(S, S) -> R) -> impl FnMut(Range<usize>) -> R {
    move |piece| body(start.plus(piece.start), start.plus(piece.end))
}

/// Returns the body's value, a success or a failure.
#[inline]
pub(super) fn outcome<R>(done: Result<R, R>) -> R {
    done.unwrap_or_else(|error| error)
}
