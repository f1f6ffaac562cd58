use std::ops::Range;

/// A body's part that takes back a failed attempt; `()` has nothing to take back.
pub trait Undo {
    /// Takes back what the attempt at these items did.
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
