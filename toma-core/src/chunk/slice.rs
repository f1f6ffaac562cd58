use std::ops::Range;

use super::{Chunk, ChunkOf, Chunked, Held, axis};

macro_rules! slice {
    ($($mutability:tt)?) => {
        impl<'a, T> ChunkOf<'a> for &$($mutability)? [T] {
            type Held = &'a $($mutability)? [T];
            type Chunk = &'a $($mutability)? [T];
        }

        impl<T> Chunked for &$($mutability)? [T] {
            fn extent(&self, dim: isize) -> usize {
                axis(dim, 1);
                self.len()
            }

            #[inline]
            fn hold(&mut self, _: isize, range: Range<usize>) -> Held<'_, Self> {
                &$($mutability)? self[range]
            }

            #[inline]
            fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
                held
            }
        }
    };
}

slice!();
slice!(mut);
