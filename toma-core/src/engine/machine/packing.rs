//! The parts of a machine whose sizes are costs.
//!
//! Packed pieces are of any size up to the step, so they differ from counted ones in what they say
//! about it; and a single item may be too heavy where all others are not.

use std::ops::Range;

use super::isolating::Doubts;
use super::{Cut, Extent, Failed, Machine, Took, Verdict};
use crate::engine::costs::Costs;
use crate::policy::Policy;

/// What a machine has whose sizes are costs.
#[derive(Debug)]
pub(super) struct Packing {
    costs: Costs,
    /// The step at which the last size settled. Packed pieces are of any size up to the step, and
    /// the largest that ran at one step is what is known to work.
    pub(super) settled_at: Option<usize>,
    pub(super) doubts: Doubts,
}

impl Extent {
    /// Items in all; unknown in a batch.
    #[inline]
    pub(crate) fn items(&self) -> Option<usize> {
        match self {
            Self::Batch => None,
            Self::Items(count) => Some(*count),
            Self::Packed(costs) => Some(costs.items()),
        }
    }
}

impl Packing {
    // Out of line, like all that is about costs: calls that count should not carry it along.
    #[inline(never)]
    pub(super) fn cut_at(&self, position: usize, step: usize) -> Cut {
        let end = self.costs.end(position, step);
        Cut { end, size: self.costs.of(position..end) }
    }

    #[inline(never)]
    pub(super) fn cost_from(&self, position: usize) -> usize {
        self.cost_of(position..self.costs.items())
    }

    pub(super) fn cost_of(&self, items: Range<usize>) -> usize {
        self.costs.of(items)
    }
}

impl Machine {
    /// Counts sizes in costs from now on; returns what all items cost together.
    #[inline(never)]
    pub(crate) fn pack(&mut self, costs: Costs) -> usize {
        let packing =
            self.packing.insert(Box::new(Packing { costs, settled_at: None, doubts: Doubts::default() }));
        packing.cost_from(0)
    }

    /// At most so many pieces are to come.
    pub(crate) fn most_pieces(&self) -> usize {
        let left = self.end - self.position;
        if self.packing.is_some() { left } else { left.div_ceil(self.sizes.floor) }
    }

    /// Whether the piece is a single item that is heavier than need be: it cannot be cut, and the
    /// others do not need it.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        let single = self.packing.is_some() && self.piece().len() == 1;
        single && self.sizes.can_shrink(self.size())
    }

    /// Whether a packed piece of this size says something about the step.
    ///
    /// Such pieces seldom fill a step; two that follow each other fill more than one. So one that fills
    /// less than half says little, such as a short tail, and one beyond the step was a single item.
    pub(super) fn fills(&self, size: usize) -> bool {
        size <= self.step && size > self.step / 2
    }

    /// The same as [`succeeded`](Self::succeeded) for a packed piece.
    #[inline(never)]
    pub(super) fn packed_succeeded(&mut self, policy: &impl Policy, took: Took<'_>) -> Option<usize> {
        let Cut { end, size } = self.piece.cut;
        let works = took.measured.is_none_or(|measured| self.note(size, measured));
        self.move_to(end);
        if let Some(step) = self.work_off() {
            // Little says nothing about the step it was cut from.
            let changes = step != self.step;
            self.step = step;
            return changes.then_some(step);
        }
        if works {
            self.packed(size);
        } else {
            self.bounds.failed(size);
        }
        if self.is_done() || self.frozen { None } else { self.advance(policy, size, took) }
    }

    /// A packed piece of this size succeeded.
    fn packed(&mut self, size: usize) {
        if !self.fills(size) {
            return;
        }
        self.bounds.succeeded(size);
        let Some(packing) = &mut self.packing else { return };
        if self.learning.moved || size > self.learning.best {
            let at_this_step = packing.settled_at.replace(self.step) == Some(self.step);
            let settled = self.learning.settled.filter(|_| at_this_step);
            let most = settled.map_or(size, |settled| settled.max(size));
            self.learning.best = most;
            self.learning.settled = Some(most);
        }
    }

    /// An item that failed alone. That says nothing of the others: what it weighs and what it needs may
    /// be far apart, and a smaller step would not have helped it.
    #[cold]
    pub(super) fn set_aside(&mut self, failed: &Failed<'_>) -> Verdict {
        let (index, cost) = (self.position, self.size());
        self.fails(cost, failed);
        self.acquit();
        self.move_to(index + 1);
        Verdict::SetAside { index, cost }
    }
}
