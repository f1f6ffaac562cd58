//! The parts of a machine whose sizes are costs.
//!
//! Packed pieces are of any size up to the step, so they differ from counted ones in what they say
//! about it; and a single item may be too heavy where all others are not.

use super::{Cut, Extent, Failed, Machine, PieceState, Verdict};
use crate::engine::costs::Costs;
use crate::policy::Policy;

/// What a machine has whose sizes are costs.
#[derive(Debug)]
pub(super) struct Packing {
    costs: Costs,
    /// The step at which the last size settled. Packed pieces are of any size up to the step, and
    /// the largest that ran at one step is what is known to work.
    settled_at: Option<usize>,
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
        self.costs.of(position..self.costs.items())
    }
}

impl Machine {
    /// Counts sizes in costs from now on; returns what all items cost together.
    #[inline(never)]
    pub(crate) fn pack(&mut self, costs: Costs) -> usize {
        let packing = self.packing.insert(Box::new(Packing { costs, settled_at: None }));
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

    /// A packed piece of this size succeeded.
    #[inline(never)]
    pub(super) fn packed(&mut self, size: usize) {
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

    /// An item that failed alone. It is evidence for the pieces to come, unless it costs more than any
    /// of them may.
    #[cold]
    pub(super) fn set_aside(&mut self, policy: &impl Policy, failed: &Failed<'_>) -> Verdict {
        let (index, cost) = (self.position, self.size());
        if cost <= self.step {
            self.fails(cost, failed);
            self.take_smaller(policy, failed, cost);
        }
        self.position += 1;
        self.piece = PieceState::default();
        Verdict::SetAside { index, cost }
    }
}
