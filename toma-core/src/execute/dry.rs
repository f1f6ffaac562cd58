use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};

use super::undo::Undo;
use super::with::Core;
use crate::classify::Failure;
use crate::outcome::{Judge, Outcome};
use crate::predict::DryBody;

/// The body of a form, lent for dry runs. `T`: the type that the body returns, and the markers of its judge and hold.
pub(super) struct Dry<'f, F, B, K, H, T> {
    run: F,
    undo: &'f mut B,
    judge: &'f K,
    hold: H,
    /// Start of the user's range.
    start: usize,
    /// Hash of the data's shape.
    shape: u64,
    outcomes: PhantomData<fn(T)>,
}

impl<'f, F, B, K, H, R, S, M> Dry<'f, F, B, K, H, (R, S, M)>
where
    F: FnMut(Range<usize>) -> R,
    B: Undo,
    K: Judge<R, M>,
    H: Hold<R, S>,
{
    pub(super) fn new(run: F, undo: &'f mut B, judge: &'f K, hold: H) -> Self {
        Self { run, undo, judge, hold, start: 0, shape: 0, outcomes: PhantomData }
    }

    /// Sets the start and the data's shape of a call.
    pub(super) fn within<P>(self, core: &Core<'_, P>) -> Self {
        Self { start: core.start, shape: core.shape, ..self }
    }
}

/// Holds the body's values in a dry run, as long as the form does in a real one.
///
/// `S` keeps implementations for different kinds of outcomes apart.
pub(super) trait Hold<R, S> {
    fn hold(&mut self, outcome: R);

    /// Drops all held values.
    fn drop_held(&mut self);
}

/// Drops each value before the next piece begins.
pub(super) struct DropAll;

impl<R> Hold<R, ()> for DropAll {
    fn hold(&mut self, _: R) {}

    fn drop_held(&mut self) {}
}

/// Collects the values.
pub(super) struct Collect<V>(pub(super) Vec<V>);

impl<R: Outcome<S>, S> Hold<R, S> for Collect<R::Value> {
    fn hold(&mut self, outcome: R) {
        if let ControlFlow::Continue(value) = outcome.branch::<()>() {
            self.0.push(value);
        }
    }

    fn drop_held(&mut self) {
        self.0.clear();
    }
}

/// Replaces the value so far by each new one, and restores the first in the end.
pub(super) struct MoveOn<'f, A> {
    pub(super) so_far: &'f RefCell<A>,
    pub(super) first: Option<A>,
}

impl<R: Outcome<S>, S> Hold<R, S> for MoveOn<'_, R::Value> {
    fn hold(&mut self, outcome: R) {
        if let ControlFlow::Continue(next) = outcome.branch::<()>() {
            let last = self.so_far.replace(next);
            self.first.get_or_insert(last);
        }
    }

    fn drop_held(&mut self) {
        if let Some(first) = self.first.take() {
            self.so_far.replace(first);
        }
    }
}

impl<F, B, K, H, R, S, M> DryBody for Dry<'_, F, B, K, H, (R, S, M)>
where
    F: FnMut(Range<usize>) -> R,
    B: Undo,
    K: Judge<R, M>,
    H: Hold<R, S>,
{
    fn run(&mut self, piece: Range<usize>) -> Option<Failure> {
        let outcome = (self.run)(piece);
        let failure = self.judge.failure(&outcome);
        if failure.is_none() {
            self.hold.hold(outcome);
        }
        failure
    }

    fn drop_held(&mut self) {
        self.hold.drop_held();
    }

    fn undo(&mut self, piece: Range<usize>) {
        self.undo.undo(self.start + piece.start..self.start + piece.end);
    }

    fn shape(&self) -> u64 {
        self.shape
    }
}
