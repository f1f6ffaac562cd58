//! Which frames of a walk count: the first ones outside the library.

use std::ops::ControlFlow;

/// How many frames take part in a [`Fingerprint`](super::Fingerprint), counted from the caller of the entry function.
///
/// Recursion up to this depth is told apart; deeper recursion shares one fingerprint. A walk costs
/// about 0.1 µs per frame, so the limit bounds the price of a call made from deep inside a program.
pub const FRAME_LIMIT: usize = 24;

/// Hands the first frames outside the library on, each by the beginning of its function.
///
/// `each` runs inside the unwinder and must not panic.
pub(super) struct Outside<F> {
    entry: usize,
    inside: bool,
    left: usize,
    each: F,
}

impl<F: FnMut(usize)> Outside<F> {
    pub(super) const fn of(entry: usize, each: F) -> Self {
        Self { entry, inside: true, left: FRAME_LIMIT, each }
    }

    /// Takes the next frame outwards, and breaks when no further one is wanted.
    ///
    /// Once outside the library every frame counts, whatever its address: a program may go on from a
    /// stack of its own making, below the one it left.
    pub(super) fn visit(&mut self, frame: &impl Frame) -> ControlFlow<()> {
        if self.inside && frame.stack_pointer() <= self.entry {
            return ControlFlow::Continue(());
        }
        self.inside = false;
        (self.each)(frame.function_start());
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// One function on the stack that has not returned, as an unwinder shows it.
pub(super) trait Frame {
    /// The stack pointer it will go on with: everything it called lies below.
    fn stack_pointer(&self) -> usize;

    /// Where its function begins; 0 where the platform does not know.
    fn function_start(&self) -> usize;
}
