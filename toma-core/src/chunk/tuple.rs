use std::ops::Range;

use super::{Chunk, ChunkOf, Chunked, Held};
use crate::call_site::hash_of;

/// Returns the common extent of all parts of a tuple.
#[track_caller]
fn equal_extents(extents: &[usize]) -> usize {
    let first = extents[0];
    assert!(
        extents.iter().all(|&extent| extent == first),
        "chunked tuple: the extents {extents:?} must be equal"
    );
    first
}

macro_rules! tuple {
    ($($part:ident $kind:ident $index:tt),+) => {
        #[diagnostic::do_not_recommend]
        impl<'a, $($part: ChunkOf<'a, $kind>, $kind),+> ChunkOf<'a, ($($kind,)+)> for ($($part,)+) {
            type Held = ($($part::Held,)+);
            type Chunk = ($($part::Chunk,)+);
        }

        #[diagnostic::do_not_recommend]
        impl<$($part: Chunked<$kind>, $kind),+> Chunked<($($kind,)+)> for ($($part,)+) {
            fn extent(&self, dim: isize) -> usize {
                equal_extents(&[$(self.$index.extent(dim)),+])
            }

            #[inline]
            fn hold(&mut self, dim: isize, range: Range<usize>) -> Held<'_, Self, ($($kind,)+)> {
                ($(self.$index.hold(dim, range.clone()),)+)
            }

            fn shape_key(&self, dim: isize) -> u64 {
                hash_of([$(self.$index.shape_key(dim)),+])
            }

            fn places(&self, place: &mut dyn FnMut(&str)) {
                $(self.$index.places(place);)+
            }

            #[inline]
            fn lend<'a>(held: &'a mut Held<'_, Self, ($($kind,)+)>) -> Chunk<'a, Self, ($($kind,)+)> {
                ($($part::lend(&mut held.$index),)+)
            }
        }
    };
}

tuple!(A KA 0);
tuple!(A KA 0, B KB 1);
tuple!(A KA 0, B KB 1, C KC 2);
tuple!(A KA 0, B KB 1, C KC 2, D KD 3);
tuple!(A KA 0, B KB 1, C KC 2, D KD 3, E KE 4);
tuple!(A KA 0, B KB 1, C KC 2, D KD 3, E KE 4, F KF 5);
