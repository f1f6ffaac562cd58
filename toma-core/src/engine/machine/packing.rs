//! The parts of a machine whose sizes are costs.
//!
//! Packed pieces are of any size up to the step, so they differ from counted ones in what they say
//! about it; and a single item may be too heavy where all others are not.

use std::mem;
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
    /// Items that a piece may have: costs do not tell apart what costs nothing.
    pub(super) most: usize,
    /// The largest cost that has succeeded since an item was left out at the floor.
    fits: Option<usize>,
    /// The largest cost that has succeeded since somebody asked.
    ran: usize,
    /// The coming piece is an item that has failed alone and works in another memory.
    pub(super) elsewhere: bool,
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
        let end = self.costs.end(position, step).min(position.saturating_add(self.most));
        Cut { end, size: self.costs.of(position..end) }
    }

    #[inline(never)]
    pub(super) fn cost_from(&self, position: usize) -> usize {
        self.cost_of(position..self.costs.items())
    }

    /// Whether fewer items would cost no less, or nothing: no smaller size can tell them apart, and no
    /// floor is meant for them.
    #[inline(never)]
    fn can_be_cut(&self, items: Range<usize>) -> bool {
        items.len() > 1 && self.costs.is_of_one(items)
    }

    pub(super) fn cost_of(&self, items: Range<usize>) -> usize {
        self.costs.of(items)
    }
}

impl Machine {
    /// Counts sizes in costs from now on; returns what all items cost together.
    #[inline(never)]
    pub(crate) fn pack(&mut self, costs: Costs) -> usize {
        let whole = costs.of(0..costs.items());
        let doubts = Doubts::default();
        let packing = Packing {
            costs,
            settled_at: None,
            doubts,
            most: usize::MAX,
            fits: None,
            ran: 0,
            elsewhere: false,
        };
        self.packing = Some(Box::new(packing));
        whole
    }

    /// The size of the pieces that have succeeded since it was asked last: the largest of them, where sizes are
    /// costs, because no piece need fill a step, and otherwise that step.
    pub(crate) fn take_ran(&mut self, step: usize) -> usize {
        self.packing.as_mut().map_or(step, |packing| mem::take(&mut packing.ran))
    }

    /// At most so many pieces are to come.
    pub(crate) fn most_pieces(&self) -> usize {
        let left = self.end - self.position;
        if self.packing.is_some() { left } else { left.div_ceil(self.sizes.floor) }
    }

    /// Whether less can be tried than the coming attempt: a smaller size, or fewer items.
    #[inline]
    pub(super) fn can_be_smaller(&self) -> bool {
        self.sizes.can_shrink(self.size())
            || self.packing.as_ref().is_some_and(|packing| packing.can_be_cut(self.piece()))
    }

    /// Whether the piece is a single item that the others can do without: it is heavier than need be, or
    /// it is not, and something as heavy has worked; or it works in another memory for itself.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        let Some(packing) = &self.packing else { return false };
        let size = self.size();
        let others_fit = self.sizes.can_shrink(size) || packing.fits >= Some(size);
        self.piece().len() == 1 && (others_fit || packing.elsewhere)
    }

    /// Whether the piece is one item that the others can do without, and whether less can be tried.
    // Out of line, so that calls that count find nothing but the question.
    #[inline(never)]
    pub(super) fn packed_retryable(&self) -> (bool, bool) {
        (self.is_alone(), self.can_be_smaller())
    }

    /// Half as many items, where costs do not say how a piece could be smaller. That is no evidence about
    /// any size.
    pub(super) fn take_fewer(&mut self) -> Verdict {
        self.doubt();
        self.renew_rungs();
        let items = self.piece().len() / 2;
        if let Some(packing) = &mut self.packing {
            packing.most = items;
        }
        Verdict::Cut(items)
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
        if let Some(packing) = &mut self.packing {
            packing.ran = packing.ran.max(size);
        }
        if self.comes_back() {
            self.move_to(end);
            return None;
        }
        let works = took.measured.is_none_or(|measured| self.note(size, measured));
        self.move_to(end);
        if let Some(packing) = &mut self.packing {
            packing.fits = packing.fits.max(Some(size));
        }
        if let Some(step) = self.resume() {
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
        if !self.comes_back() {
            self.fails(cost, failed);
            self.gets_over(cost);
        }
        self.move_to(index + 1);
        Verdict::SetAside { index, cost }
    }

    /// An item that failed alone, and works in another memory.
    #[cold]
    pub(super) fn fall_back_alone(&mut self) -> Verdict {
        let (index, cost) = (self.position, self.size());
        self.gets_over(cost);
        if let Some(packing) = &mut self.packing {
            packing.elsewhere = true;
        }
        Verdict::FallBackAlone { index, cost }
    }

    /// The others do without an item of this cost.
    fn gets_over(&mut self, cost: usize) {
        self.acquit();
        let is_at_the_floor = !self.sizes.can_shrink(cost);
        if let Some(packing) = self.packing.as_mut().filter(|_| is_at_the_floor) {
            // The next one that fails there shows that nothing fits any more.
            packing.fits = None;
        }
    }

    /// The item that worked in another memory, if one did, is dealt with; the next piece is here.
    fn comes_back(&mut self) -> bool {
        self.packing.as_mut().is_some_and(|packing| mem::take(&mut packing.elsewhere))
    }

    /// Begins anew, with nothing known.
    pub(super) fn start_anew(&mut self) {
        if let Some(packing) = &mut self.packing {
            (packing.settled_at, packing.doubts) = (None, Doubts::default());
            (packing.most, packing.fits) = (usize::MAX, None);
        }
    }
}
