//! Sizes that a machine takes from other ranks.

use super::Machine;
use crate::engine::rungs::Rungs;

impl Machine {
    /// The size this rank proposes to the others; `usize::MAX` where it covers all that is left, because it need not
    /// bind those that have more to do.
    pub(in crate::engine) fn proposal(&self) -> usize {
        if !self.is_batch() && self.step >= self.left() { usize::MAX } else { self.step }
    }

    /// Goes on with the size that ranks agreed on.
    pub(in crate::engine) fn adopt(&mut self, size: usize) {
        let to = if size == usize::MAX { self.step } else { self.sizes.fit(size) };
        if to != self.step {
            self.step = to;
            // Another size is another question.
            self.spent = self.spent.within(Rungs::ONCE_A_PIECE);
            // A doubt that not all share is none, and says nothing of the size before it.
            let is_as_before = self.doubted.take() == Some(to);
            self.learning.moved |= !self.fallback && !is_as_before;
        }
    }

    /// The attempt has failed on another rank: makes it again, at this size if that is smaller. Returns the size.
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

    /// The same machine, to go on with where all ranks agree. It takes along what items cost, which may be much.
    pub(in crate::engine) fn ahead(&mut self) -> Self {
        let costs = self.extent.costs.take();
        let mut ahead = self.clone();
        ahead.extent.costs = costs;
        ahead
    }

    /// The machine from which `ahead` came goes on itself.
    pub(in crate::engine) fn stays(&mut self, ahead: Self) {
        self.extent.costs = ahead.extent.costs;
    }

    /// A rank has ended the call: nothing is left to do.
    pub(in crate::engine) fn end(&mut self) {
        self.extent.end = self.position;
    }
}
