use std::ops::Range;

/// Undoes failed attempts; `()` undoes nothing.
pub trait Undo {
    /// Undoes the effects of the attempt at these items.
    fn undo(&mut self, failed: Range<usize>);
}

impl Undo for () {
    #[inline]
    fn undo(&mut self, _: Range<usize>) {}
}

impl<F: FnMut(Range<usize>)> Undo for F {
    fn undo(&mut self, failed: Range<usize>) {
        self(failed);
    }
}
