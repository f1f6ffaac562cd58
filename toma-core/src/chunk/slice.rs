use std::ops::Range;

use super::{Chunk, ChunkOf, Chunked, Held, axis};

// Both are written out, because a macro would appear in the errors of calls that pass something else.
impl<'a, T> ChunkOf<'a> for &[T] {
    type Held = &'a [T];
    type Chunk = &'a [T];
}

impl<T> Chunked for &[T] {
    fn extent(&self, dim: isize) -> usize {
        axis(dim, 1);
        self.len()
    }

    #[inline]
    fn hold(&mut self, _: isize, range: Range<usize>) -> Held<'_, Self> {
        &self[range]
    }

    #[inline]
    fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        held
    }
}

impl<'a, T> ChunkOf<'a> for &mut [T] {
    type Held = &'a mut [T];
    type Chunk = &'a mut [T];
}

impl<T> Chunked for &mut [T] {
    fn extent(&self, dim: isize) -> usize {
        axis(dim, 1);
        self.len()
    }

    #[inline]
    fn hold(&mut self, _: isize, range: Range<usize>) -> Held<'_, Self> {
        &mut self[range]
    }

    #[inline]
    fn lend<'a>(held: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        held
    }
}
