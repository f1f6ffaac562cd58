//! Selects the frames of a walk that count: the first ones outside the library.

use std::ops::ControlFlow;

/// The number of frames in a [`Fingerprint`](super::Fingerprint), counted from the caller of the entry function.
///
/// Recursion up to this depth is distinguished; deeper recursion shares one fingerprint. A walk costs about 0.1 µs per
/// frame, so the limit bounds the cost of a call made from deep inside a program.
pub const FRAME_LIMIT: usize = 24;

/// Passes the first frames outside the library to `each`, as the start addresses of their functions.
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

    /// Takes the next outer frame, and breaks when no further one is wanted.
    ///
    /// Once outside the library every frame counts, whatever its address: a program may continue on a stack of its own,
    /// below the one it left.
    pub(super) fn visit(&mut self, frame: &impl StackFrame) -> ControlFlow<()> {
        if self.inside && frame.stack_pointer() <= self.entry {
            return ControlFlow::Continue(());
        }
        self.inside = false;
        (self.each)(frame.function_start());
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// One function on the stack that has not returned, as an unwinder reports it.
pub(super) trait StackFrame {
    /// The stack pointer with which it will continue: the frames of all its callees lie below.
    fn stack_pointer(&self) -> usize;

    /// The address at which its function begins; 0 if the platform does not know it.
    fn function_start(&self) -> usize;
}
