use std::ops::Range;

use super::undo::Undo;
use crate::classify::Failure;
use crate::engine::costs::{Costs, Padding};
use crate::engine::drive::{Cleanup, Work};
use crate::engine::pieces::Extent;

/// Unit of sizes: [items](Items), or [costs](super::ByCost).
pub trait Unit {
    /// True if items have different costs.
    const PACKS: bool;

    /// True if pieces are even.
    const EVEN: bool = false;

    /// Cost of the item with this index.
    fn cost(&mut self, index: usize) -> u64 {
        let _ = index;
        1
    }

    /// Returns the padding of this many items, if the items of a piece are padded.
    fn padding(&self, items: usize) -> Option<Padding> {
        let _ = items;
        None
    }

    /// True if items that do not fit by themselves are reported. Otherwise the first such failure is passed on in the
    /// end.
    fn takes_left_out(&self) -> bool {
        false
    }

    /// Reports an item that does not fit by itself.
    fn leave_out(&mut self, index: usize, cost: u64, failure: Failure) {
        let _ = (index, cost, failure);
    }
}

/// Each item counts one.
#[derive(Clone, Copy, Debug)]
pub struct Items;

impl Unit for Items {
    const PACKS: bool = false;
}

/// Each item counts one, and pieces are [even](super::With::evenly).
#[derive(Clone, Copy, Debug)]
pub struct EvenItems;

impl Unit for EvenItems {
    const PACKS: bool = false;
    const EVEN: bool = true;
}

/// A body, and its cleanup after failures.
pub(super) struct Job<F, B, U> {
    pub(super) run: F,
    pub(super) after: AfterFailure<B, U>,
}

/// Cleanup after failures: undoes attempts, and leaves items out.
pub(super) struct AfterFailure<B, U> {
    pub(super) undo: B,
    pub(super) unit: U,
    /// Start of the user's range; pieces count from 0.
    pub(super) start: usize,
}

impl<B, U: Unit> AfterFailure<B, U> {
    /// Amount of work in this many items.
    #[inline]
    pub(super) fn extent(&mut self, items: usize) -> Extent {
        if !U::PACKS {
            return if U::EVEN { Extent::even(items) } else { Extent::of(items) };
        }
        let padding = self.unit.padding(items);
        let cost = |position| self.unit.cost(self.start + position);
        Extent::packed(match padding {
            None => Costs::of_each(items, cost),
            Some(padding) => Costs::padded(items, cost, padding),
        })
    }
}

impl<B: Undo, U: Unit> Cleanup for AfterFailure<B, U> {
    fn undo(&mut self, failed: Range<usize>) {
        self.undo.undo(self.start + failed.start..self.start + failed.end);
    }

    fn takes_left_out(&self) -> bool {
        self.unit.takes_left_out()
    }

    fn leave_out(&mut self, index: usize, cost: usize, failure: Failure) {
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.unit.leave_out(self.start + index, cost, failure);
    }
}

/// A batch: one piece, at the size that succeeds.
pub(super) struct Whole<F, B>(pub(super) Job<F, B, Items>);

impl<R, F: FnMut(Range<usize>) -> R, B: Undo> Work<R> for Whole<F, B> {
    const LEAVES_OUT: bool = false;

    #[inline]
    fn run(&mut self, piece: Range<usize>) -> R {
        (self.0.run)(piece)
    }

    #[inline]
    fn cleanup(&mut self) -> &mut impl Cleanup {
        &mut self.0.after
    }
}

impl<R, F: FnMut(Range<usize>) -> R, B: Undo, U: Unit> Work<R> for Job<F, B, U> {
    const LEAVES_OUT: bool = U::PACKS;

    #[inline]
    fn run(&mut self, piece: Range<usize>) -> R {
        (self.run)(piece)
    }

    #[inline]
    fn cleanup(&mut self) -> &mut impl Cleanup {
        &mut self.after
    }
}
