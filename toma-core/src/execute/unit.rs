use std::ops::Range;

use super::forms::Undo;
use crate::classify::Failure;
use crate::engine::costs::Costs;
use crate::engine::drive::{Care, Work};
use crate::engine::machine::Extent;

/// What sizes count: [items](Items), or [what they cost](super::ByCost).
pub trait Unit {
    /// Whether items differ in what they cost.
    const PACKS: bool;

    /// Counts from this index on.
    fn starts_at(&mut self, index: usize);

    /// What the item at this position costs.
    fn cost(&mut self, position: usize) -> u64;

    /// Whether it is told of items that fail alone; otherwise the first such failure goes through
    /// in the end.
    fn hears(&self) -> bool;

    /// Is told of an item that failed alone.
    fn set_aside(&mut self, position: usize, cost: u64, failure: Failure);
}

/// Each item counts one.
#[derive(Clone, Copy, Debug)]
pub struct Items;

impl Unit for Items {
    const PACKS: bool = false;

    fn starts_at(&mut self, _: usize) {}

    fn cost(&mut self, _: usize) -> u64 {
        1
    }

    fn hears(&self) -> bool {
        false
    }

    fn set_aside(&mut self, _: usize, _: u64, _: Failure) {}
}

/// A body with what is around its attempts.
pub(super) struct Body<F, B, U> {
    pub(super) run: F,
    pub(super) around: Around<B, U>,
}

/// What is around attempts: undoing them, and items that are left out.
pub(super) struct Around<B, U> {
    pub(super) undo: B,
    pub(super) unit: U,
}

impl<B, U: Unit> Around<B, U> {
    /// How much work so many items are.
    #[inline]
    pub(super) fn extent(&mut self, items: usize) -> Extent {
        if !U::PACKS {
            return Extent::Items(items);
        }
        Extent::Packed(Costs::of_each(items, |position| self.unit.cost(position)))
    }
}

impl<B: Undo, U: Unit> Care for Around<B, U> {
    fn undo(&mut self, failed: Range<usize>) {
        self.undo.undo(failed);
    }

    fn hears(&self) -> bool {
        self.unit.hears()
    }

    fn set_aside(&mut self, index: usize, cost: usize, failure: Failure) {
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        self.unit.set_aside(index, cost, failure);
    }
}

impl<R, F: FnMut(Range<usize>) -> R, B: Undo, U: Unit> Work<R> for Body<F, B, U> {
    const LEAVES_OUT: bool = U::PACKS;

    #[inline]
    fn run(&mut self, piece: Range<usize>) -> R {
        (self.run)(piece)
    }

    #[inline]
    fn care(&mut self) -> &mut impl Care {
        &mut self.around
    }
}
