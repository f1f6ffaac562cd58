use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};

use super::forms::Undo;
use super::unit::{Job, Unit};
use crate::classify::Failure;
use crate::engine::drive::Cleanup as _;
use crate::outcome::{Judge, Outcome};
use crate::predict::DryBody;

/// What a dry run of a body takes besides the body. `T` is what the body returns, and how that is judged and held.
pub(super) struct Rehearsed<'f, K, H, T> {
    judge: &'f K,
    pub(super) hold: H,
    /// Tells the data from data of other shapes.
    shape: u64,
    outcomes: PhantomData<fn(T)>,
}

impl<'f, K: Judge<R, M>, H: Hold<R, S>, R, S, M> Rehearsed<'f, K, H, (R, S, M)> {
    #[inline]
    pub(super) fn by(judge: &'f K, hold: H, shape: u64) -> Self {
        Self { judge, hold, shape, outcomes: PhantomData }
    }
}

/// What a form does in a dry run with what its body returns: it is held as long as in a real one.
///
/// `S` keeps kinds of outcomes apart.
pub(super) trait Hold<R, S> {
    fn hold(&mut self, outcome: R);

    /// Lets go of all that is held.
    fn let_go(&mut self);
}

/// What a body returned is no longer there when the next piece begins.
pub(super) struct DropAll;

impl<R> Hold<R, ()> for DropAll {
    fn hold(&mut self, _: R) {}

    fn let_go(&mut self) {}
}

/// Values are collected.
pub(super) struct Collect<V>(pub(super) Vec<V>);

impl<R: Outcome<S>, S> Hold<R, S> for Collect<R::Value> {
    fn hold(&mut self, outcome: R) {
        if let ControlFlow::Continue(value) = outcome.branch::<()>() {
            self.0.push(value);
        }
    }

    fn let_go(&mut self) {
        self.0.clear();
    }
}

/// Each value takes the place of the one before; the first comes back in the end.
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

    fn let_go(&mut self) {
        if let Some(first) = self.first.take() {
            self.so_far.replace(first);
        }
    }
}

impl<R, S, M, F, B, U, K, H> DryBody for Job<F, B, U, Rehearsed<'_, K, H, (R, S, M)>>
where
    F: FnMut(Range<usize>) -> R,
    B: Undo,
    U: Unit,
    K: Judge<R, M>,
    H: Hold<R, S>,
{
    fn run(&mut self, piece: Range<usize>) -> Option<Failure> {
        let outcome = (self.run)(piece);
        let failure = self.dry.judge.failure(&outcome);
        if failure.is_none() {
            self.dry.hold.hold(outcome);
        }
        failure
    }

    fn let_go(&mut self) {
        self.dry.hold.let_go();
    }

    fn undo(&mut self, piece: Range<usize>) {
        self.after.undo(piece);
    }

    fn shape(&self) -> u64 {
        self.dry.shape
    }
}
