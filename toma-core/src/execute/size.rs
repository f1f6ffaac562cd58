use std::fmt;

use crate::call_site::Name;

/// The integer types that sizes and positions come in: `usize`, and `i64` as tch uses it.
pub trait Size: Copy + fmt::Display + PartialOrd {
    /// The position `offset` items after this one.
    #[must_use]
    fn plus(self, offset: usize) -> Self;

    /// The number of items from `start` to this position, which is not before `start`.
    fn since(self, start: Self) -> usize;

    /// A count of items as this type.
    fn from_count(count: usize) -> Self;
}

impl Size for usize {
    #[inline]
    fn plus(self, offset: usize) -> Self {
        self + offset
    }

    #[inline]
    fn since(self, start: Self) -> usize {
        self - start
    }

    #[inline]
    fn from_count(count: usize) -> Self {
        count
    }
}

impl Size for i64 {
    #[inline]
    fn plus(self, offset: usize) -> Self {
        // The offset never passes the end, which is an i64, so wrapping gives the exact sum.
        self.wrapping_add_unsigned(offset as u64)
    }

    #[inline]
    fn since(self, start: Self) -> usize {
        // start..end may span more than i64::MAX; the difference always fits in u64.
        usize::try_from(self.wrapping_sub(start).cast_unsigned())
            .expect("a range of items fits in the address space")
    }

    #[inline]
    fn from_count(count: usize) -> Self {
        Self::try_from(count).unwrap_or(Self::MAX)
    }
}

/// The number of items from `start` to `end`.
///
/// # Panics
/// If `start` is after `end`, with the name of the call.
#[inline]
pub(crate) fn length<S: Size>(start: S, end: S, of: impl FnOnce() -> Name) -> usize {
    if start > end {
        of().refuse(format_args!("start {start}: must be at most end {end}"));
    }
    end.since(start)
}

#[cfg(test)]
mod tests {
    use super::{Size, length};
    use crate::call_site::Name;

    #[test]
    fn negative_positions_work() {
        assert_eq!(length(-5_i64, 5, Name::default), 10);
        assert_eq!((-5_i64).plus(10), 5);
        assert_eq!(length(i64::MIN, i64::MAX, Name::default), usize::MAX);
        assert_eq!(i64::MIN.plus(usize::MAX), i64::MAX);
    }

    #[test]
    #[should_panic(expected = "start 3: must be at most end 2")]
    fn a_range_that_ends_before_it_starts_is_refused() {
        length(3_usize, 2, Name::default);
    }
}
