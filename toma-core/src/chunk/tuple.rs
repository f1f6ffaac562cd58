use std::ops::Range;

use super::{Chunk, ChunkOf, Chunked, Held};

/// The one extent of all parts of a tuple.
fn equal_extents(extents: &[usize]) -> usize {
    let first = extents[0];
    assert!(
        extents.iter().all(|&extent| extent == first),
        "chunked tuple: the extents {extents:?} must be equal"
    );
    first
}

macro_rules! tuple {
    ($($part:ident $index:tt),+) => {
        #[diagnostic::do_not_recommend]
        impl<'a, $($part: ChunkOf<'a>),+> ChunkOf<'a> for ($($part,)+) {
            type Held = ($($part::Held,)+);
            type Chunk = ($($part::Chunk,)+);
        }

        #[diagnostic::do_not_recommend]
        impl<$($part: Chunked),+> Chunked for ($($part,)+) {
            fn extent(&self, dim: isize) -> usize {
                equal_extents(&[$(self.$index.extent(dim)),+])
            }

            #[inline]
            fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self> {
                ($(self.$index.hold(dim, range.clone()),)+)
            }

            #[inline]
            fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
                ($($part::lend(&mut held.$index),)+)
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
