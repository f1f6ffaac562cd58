//! The parts of a machine whose sizes are costs.
//!
//! Packed pieces are of any size up to the step, so they differ from counted ones in what they say
//! about it; and a single item may be too heavy where all others are not.

use super::{Cut, Extent, Failed, Machine, PieceState, Verdict};
use crate::engine::costs::Costs;
use crate::engine::sizes::Sizes;
use crate::policy::Policy;

/// What a machine has whose sizes are costs.
#[derive(Debug)]
pub(super) struct Packing {
    pub(super) costs: Costs,
    /// Items that failed alone and were left out.
    pub(super) left_out: usize,
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
    #[inline]
    pub(super) fn of(extent: Extent) -> Option<Box<Self>> {
        match extent {
            Extent::Packed(costs) => Some(Box::new(Self { costs, left_out: 0, settled_at: None })),
            Extent::Batch | Extent::Items(_) => None,
        }
    }

    fn cut_at(&self, position: usize, step: usize, sizes: &Sizes) -> Cut {
        if position == self.costs.items() {
            return Cut { end: position, ..Cut::default() };
        }
        let end = self.costs.end(position, step);
        let (size, single) = (self.costs.of(position..end), end == position + 1);
        Cut { end, size, alone: single && sizes.can_shrink(size) }
    }

    // Out of line, like all that is about costs: calls that count should not carry it along.
    #[inline(never)]
    pub(super) fn cost_from(&self, position: usize) -> usize {
        self.costs.of(position..self.costs.items())
    }
}

impl Machine {
    #[inline(never)]
    pub(super) fn cut_packed(&mut self) {
        if let Some(packing) = &self.packing {
            self.piece.cut = packing.cut_at(self.position, self.step, &self.sizes);
        }
    }

    /// At most so many pieces are to come.
    pub(crate) fn most_pieces(&self) -> usize {
        let left = self.end - self.position;
        if self.packing.is_some() { left } else { left.div_ceil(self.sizes.floor) }
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
        self.recut();
        if let Some(packing) = &mut self.packing {
            packing.left_out += 1;
        }
        Verdict::SetAside { index, cost }
    }
}
