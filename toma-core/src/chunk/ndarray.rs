use std::ops::Range;

use ndarray::{ArrayView, ArrayViewMut, Axis, Dimension, Slice};

use super::{Chunk, ChunkOf, Chunked, Held, axis};

fn slice(range: &Range<usize>) -> Slice {
    // Extents of arrays fit in isize: ndarray checks that when it makes them.
    Slice::from(range.start..range.end)
}

#[diagnostic::do_not_recommend]
impl<'a, T, D: Dimension> ChunkOf<'a> for ArrayView<'_, T, D> {
    type Held = ArrayView<'a, T, D>;
    type Chunk = ArrayView<'a, T, D>;
}

#[diagnostic::do_not_recommend]
impl<T, D: Dimension> Chunked for ArrayView<'_, T, D> {
    fn extent(&self, dim: isize) -> usize {
        self.len_of(Axis(axis(dim, self.ndim())))
    }

    fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self> {
        self.slice_axis(Axis(axis(dim, self.ndim())), slice(&range))
    }

    fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        held.view()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, T, D: Dimension> ChunkOf<'a> for ArrayViewMut<'_, T, D> {
    type Held = ArrayViewMut<'a, T, D>;
    type Chunk = ArrayViewMut<'a, T, D>;
}

#[diagnostic::do_not_recommend]
impl<T, D: Dimension> Chunked for ArrayViewMut<'_, T, D> {
    fn extent(&self, dim: isize) -> usize {
        self.len_of(Axis(axis(dim, self.ndim())))
    }

    fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self> {
        let axis = Axis(axis(dim, self.ndim()));
        self.slice_axis_mut(axis, slice(&range))
    }

    fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        held.view_mut()
    }
}
