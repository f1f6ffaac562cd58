use std::ops::Range;

use super::undo::Undo;
use crate::classify::Failure;
use crate::engine::costs::{Costs, Padding};
use crate::engine::drive::{Cleanup, Work};
use crate::engine::pieces::Extent;
use crate::shield::Inside;

/// What sizes count: [items](Items), or [what they cost](super::ByCost).
pub trait Unit {
    /// Whether items differ in what they cost.
    const PACKS: bool;

    /// Whether pieces are even.
    const EVEN: bool = false;

    /// What the item with this index costs.
    fn cost(&mut self, index: usize) -> u64 {
        let _ = index;
        1
    }

    /// How so many items are padded, where the items of a piece are.
    fn padding(&self, items: usize) -> Option<Padding> {
        let _ = items;
        None
    }

    /// Whether items that do not fit by themselves are reported; otherwise the first such failure goes through in the
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

/// A body, and what happens after its failures.
pub(super) struct Job<F, B, U> {
    pub(super) run: F,
    pub(super) after: AfterFailure<B, U>,
}

/// What happens after failures: attempts are undone, and items left out.
pub(super) struct AfterFailure<B, U> {
    pub(super) undo: B,
    pub(super) unit: U,
    /// Where the user's range starts: pieces count from 0.
    pub(super) start: usize,
}

impl<B, U: Unit> AfterFailure<B, U> {
    /// How much work so many items are.
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

/// One piece of whatever size succeeds.
pub(super) struct Whole<F, B>(pub(super) Job<F, B, Items>);

impl<R, F: FnMut(Range<usize>) -> R, B: Undo> Work<R> for Whole<F, B> {
    const LEAVES_OUT: bool = false;
    const INSIDE: Inside = Inside::BATCH;

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
