use std::ops::Range;

use ndarray::{ArrayView, ArrayViewMut, Axis, Dimension, Slice};

use super::{Chunk, ChunkOf, Chunked, Held, axis};

macro_rules! view {
    ($view:ident, $slice:ident, $reborrow:ident) => {
        #[diagnostic::do_not_recommend]
        impl<'a, T, D: Dimension> ChunkOf<'a> for $view<'_, T, D> {
            type Held = $view<'a, T, D>;
            type Chunk = $view<'a, T, D>;
        }

        #[diagnostic::do_not_recommend]
        impl<T, D: Dimension> Chunked for $view<'_, T, D> {
            fn extent(&self, dim: isize) -> usize {
                self.len_of(Axis(axis(dim, self.ndim())))
            }

            fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self> {
                let axis = Axis(axis(dim, self.ndim()));
                // Extents of arrays fit in isize: ndarray checks that when it makes them.
                self.$slice(axis, Slice::from(range))
            }

            fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
                held.$reborrow()
            }
        }
    };
}

view!(ArrayView, slice_axis, view);
view!(ArrayViewMut, slice_axis_mut, view_mut);
