use std::marker::PhantomData;
use std::ops::Range;

use crate::classify::Failure;
use crate::engine::drive::{Cleanup as _, Work};
use crate::outcome::Judge;
use crate::predict::DryBody;

/// The body of a form, in a dry run. `hold` keeps what it returns as long as the form would, and lets go of all
/// that it keeps when it is given nothing.
pub(super) struct Dry<'f, W, K, H, R, M> {
    work: &'f mut W,
    judge: &'f K,
    shape: u64,
    hold: H,
    judges: PhantomData<fn(R) -> M>,
}

impl<'f, W: Work<R>, K: Judge<R, M>, H: FnMut(Option<R>), R, M> Dry<'f, W, K, H, R, M> {
    #[inline]
    pub(super) fn of(work: &'f mut W, judge: &'f K, shape: u64, hold: H) -> Self {
        Self { work, judge, shape, hold, judges: PhantomData }
    }
}

impl<W: Work<R>, K: Judge<R, M>, H: FnMut(Option<R>), R, M> DryBody for Dry<'_, W, K, H, R, M> {
    fn run(&mut self, piece: Range<usize>) -> Option<Failure> {
        let outcome = self.work.run(piece);
        let failure = self.judge.failure(&outcome);
        if failure.is_none() {
            (self.hold)(Some(outcome));
        }
        failure
    }

    fn let_go(&mut self) {
        (self.hold)(None);
    }

    fn undo(&mut self, piece: Range<usize>) {
        self.work.cleanup().undo(piece);
    }

    fn shape(&self) -> u64 {
        self.shape
    }
}
