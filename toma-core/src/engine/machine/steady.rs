//! Pieces that are as the one before them, in a call without stages.
//!
//! # Why
//!
//! Most pieces of a long range have the size of the one before them, and nothing is learned from their success. So the
//! end of such a piece is known, and so are the failures that would be retried. Stages could change the step or the
//! bounds in between, so a call with stages cuts each piece anew and learns from it.

use std::ops::Range;

use super::{Cut, Machine};
use crate::shield::Retryable;

impl Machine {
    /// Cuts the piece of the next attempt, and returns it with the failures that would be retried.
    #[inline]
    pub(crate) fn begins(&mut self) -> (Range<usize>, Retryable) {
        let (size, left) = (self.steady, self.extent.end - self.position);
        if size == 0 || left < size {
            return (self.cut(), self.retryable());
        }
        self.cut = Cut { end: self.position + size, size };
        (self.piece(), self.steady_retryable)
    }

    /// Moves on if the piece succeeded as the one before it did, so that nothing is learned. Otherwise returns false.
    #[inline]
    pub(crate) fn succeeds_as_before(&mut self) -> bool {
        let Cut { end, size } = self.cut;
        let is_steady = size == self.steady;
        if is_steady {
            self.position = end;
        }
        is_steady
    }
}
