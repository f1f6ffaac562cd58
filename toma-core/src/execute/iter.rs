use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::mem;
use std::ops::Range;
use std::panic::Location;

use super::dry::{DropAll, Dry};
use super::forms::{from, outcome};
use super::size::length;
use super::undo::Undo;
use super::unit::{AfterFailure, Job, Unit};
use super::with::With;
use crate::call_site::{Above, Origin};
use crate::engine::call::Call;
use crate::engine::drive::{Cleanup, LeftOutItem, Work, next_piece};
use crate::outcome::Judge;
use crate::policy::Policy;
use crate::stack;

impl<P: Policy, K, B: Undo, U: Unit> With<'_, P, K, B, U> {
    /// Returns an iterator over the values of `body` for consecutive pieces of `range`, in order.
    ///
    /// Like [`map`](Self::map), but nothing is collected: a piece runs when [`next`](Iterator::next) is called, and
    /// the step keeps adapting. A `Result` is returned as it is. A failure that is passed on ends the iterator.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{GlobalCache, classify::OutOfMemory, execute};
    ///
    /// let rows = execute::with::<GlobalCache>().iter(0..10, 4, |start, end| {
    ///     if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(start..end) }
    /// });
    /// let first: Vec<_> = rows.take(2).collect::<Result<_, _>>()?;
    /// assert_eq!(first, [0..2, 2..4]);
    /// # Ok::<(), OutOfMemory>(())
    /// ```
    ///
    /// The call ends with the last piece, or when the iterator is dropped, and stores its settled size then. Its
    /// stack is read when the iterator is made, because it may end on another.
    #[track_caller]
    #[inline(always)]
    #[must_use = "nothing runs until the iterator is asked for its next value"]
    pub fn iter<R, M>(
        self,
        range: Range<usize>,
        initial: usize,
        body: impl FnMut(usize, usize) -> R,
    ) -> impl FusedIterator<Item = R>
    where
        K: Judge<R, M>,
    {
        self.shifted(range.start).initial(initial).iter_at(Location::caller(), range, body)
    }

    #[inline(never)]
    fn iter_at<R, M>(
        self,
        caller: &'static Location<'static>,
        range: Range<usize>,
        mut body: impl FnMut(usize, usize) -> R,
    ) -> impl FusedIterator<Item = R>
    where
        K: Judge<R, M>,
    {
        let here = 0_u8;
        let Self { mut core, judge, undo, unit } = self;
        let mut after = AfterFailure { undo, unit, start: core.start };
        let (start, extent) =
            (range.start, after.extent(length(range.start, range.end, || core.name_at(Some(caller)))));
        let takes_left_out = after.takes_left_out();
        let above = if core.cache.remembers() {
            Above::Seen(stack::fingerprint(std::ptr::from_ref(&here).addr()))
        } else {
            Above::Unknown
        };
        let origin = Origin { site: core.site, caller: Some(caller), above };
        let parts = (core.name.take(), origin, extent);
        let mut call = Call::new(core.cache, &core.policy, &core.options, parts);
        core.open(&mut call, || {
            Dry::new(from(start, &mut body), &mut after.undo, &judge, DropAll).within(&core)
        });
        let run = move |piece: Range<usize>| body(start + piece.start, start + piece.end);
        let work = Job { run, after };
        // A call without any work is over before the first `next`.
        let call = (!call.is_over()).then_some(call);
        let policy = core.policy;
        Iter { call, policy, judge, work, left_out: None, takes_left_out, judges: PhantomData }
    }
}

/// One call, worked off piece by piece.
struct Iter<'a, P: Policy, K, R, W, M> {
    /// `None` once the call is over.
    call: Option<Call<'a>>,
    policy: P,
    judge: K,
    work: W,
    left_out: Option<LeftOutItem<R>>,
    takes_left_out: bool,
    judges: PhantomData<fn() -> M>,
}

impl<P: Policy, K: Judge<R, M>, R, W: Work<R>, M> Iterator for Iter<'_, P, K, R, W, M> {
    type Item = R;

    fn next(&mut self) -> Option<R> {
        // The call ends unless `not_yet` keeps it open, so it also ends when a panic is passed on.
        let ends = Ends(&mut self.call);
        let call = ends.0.as_mut()?;
        call.go_on();
        let done = next_piece(call, &self.policy, &self.judge, &mut self.work, &mut self.left_out)?;
        if done.is_ok() && (!call.is_over() || self.left_out.is_some()) {
            ends.not_yet();
        }
        Some(outcome(done))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let Some(call) = &self.call else { return (0, Some(0)) };
        let left_out = usize::from(self.left_out.is_some());
        let most = call.most_pieces().saturating_add(left_out);
        // An error may be the next and the last, and items may be left out.
        let least = left_out.max(usize::from(!self.takes_left_out && most > 0));
        // Another rank may end the call when all pieces are done here.
        (least, Some(most.saturating_add(usize::from(call.agrees()))))
    }
}

impl<P: Policy, K: Judge<R, M>, R, W: Work<R>, M> FusedIterator for Iter<'_, P, K, R, W, M> {}

/// Ends a call when it is dropped.
struct Ends<'i, C>(&'i mut Option<C>);

impl<C> Ends<'_, C> {
    fn not_yet(self) {
        mem::forget(self);
    }
}

impl<C> Drop for Ends<'_, C> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}
