//! Sizes that a machine adopts from other ranks.

use super::Machine;
use crate::engine::rungs::Rungs;

impl Machine {
    /// Returns the size that this rank proposes to the others. It is `usize::MAX` if the step covers all of this
    /// rank's remaining work, because ranks with more work need not follow it.
    pub(in crate::engine) fn proposal(&self) -> usize {
        if !self.is_batch() && self.step >= self.left() { usize::MAX } else { self.step }
    }

    /// Continues with the size that ranks agreed on.
    pub(in crate::engine) fn adopt(&mut self, size: usize) {
        let to = if size == usize::MAX { self.step } else { self.sizes.fit(size) };
        if to != self.step {
            self.step = to;
            // At another size the rungs may help again.
            self.spent = self.spent.within(Rungs::ONCE_A_PIECE);
            // A doubt that not all ranks share ends. Going back to the step before it is no evidence about that step.
            let is_as_before = self.doubted.take() == Some(to);
            self.learning.moved |= !self.fallback && !is_as_before;
        }
    }

    /// Repeats an attempt that has failed on another rank, at `size` if that is smaller. Returns the size.
    pub(in crate::engine) fn follow(&mut self, size: usize) -> usize {
        self.failures += 1;
        let to = self.sizes.fit(size);
        if to < self.step {
            self.bounds.failed(self.step);
            self.forget();
            self.doubted = None;
            self.adopt(to);
        }
        self.step
    }

    /// Returns a copy to continue with if all ranks agree. Item costs are moved into it, because they may be large.
    pub(in crate::engine) fn ahead(&mut self) -> Self {
        let costs = self.extent.costs.take();
        let mut ahead = self.clone();
        ahead.extent.costs = costs;
        ahead
    }

    /// Takes the costs of items back from `ahead`, because this machine continues.
    pub(in crate::engine) fn stays(&mut self, ahead: Self) {
        self.extent.costs = ahead.extent.costs;
    }

    /// Ends the work, because a rank has ended the call.
    pub(in crate::engine) fn end(&mut self) {
        self.extent.end = self.position;
    }
}
