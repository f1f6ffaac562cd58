use std::cell::Cell;
use std::ops::Range;

/// Undoes failed attempts; `()` undoes nothing.
pub trait Undo {
    /// False if there is nothing to undo. A constant, so that such work pays nothing for it.
    const UNDOES: bool = true;

    /// Undoes the effects of the attempt at these items.
    fn undo(&mut self, failed: Range<usize>);
}

impl Undo for () {
    const UNDOES: bool = false;

    #[inline]
    fn undo(&mut self, _: Range<usize>) {}
}

impl<F: FnMut(Range<usize>)> Undo for F {
    fn undo(&mut self, failed: Range<usize>) {
        self(failed);
    }
}

/// Remembers that an attempt had no memory for its view. Such an attempt never reaches the body, so it is not undone.
#[derive(Debug, Default)]
pub(crate) struct LacksView(Cell<bool>);

impl LacksView {
    /// Makes the view of an attempt, which lacks it if `hold` panics.
    #[inline]
    pub(crate) fn hold<V>(&self, hold: impl FnOnce() -> V) -> V {
        self.0.set(true);
        let view = hold();
        self.0.set(false);
        view
    }

    /// Returns true, once, if the last attempt lacks its view.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.0.take()
    }
}
