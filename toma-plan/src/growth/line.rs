//! Lines of bytes over sizes, and the highest of many.

use std::ops::{Add, RangeInclusive, Sub};

/// Bytes as a function of the size: `fixed + per_item * size`.
///
/// Either part may be negative: memory that existed before a step and is freed by it counts against the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line {
    /// Bytes independent of the size.
    pub fixed: i128,
    /// Bytes for each item.
    pub per_item: i128,
}

impl Line {
    /// Returns the bytes at a size. Sums that overflow are the largest number.
    #[must_use]
    pub fn at(self, size: u64) -> i128 {
        product(self.per_item, i128::from(size)).saturating_add(self.fixed)
    }

    /// Returns the bytes at a size as allocated bytes: zero if the line is negative there.
    pub(super) fn bytes_at(self, size: u64) -> u64 {
        u64::try_from(self.at(size).max(0)).unwrap_or(u64::MAX)
    }

    /// Returns this line over another number, of which the size is a line.
    #[must_use]
    pub(super) fn over(self, size: Self) -> Self {
        let fixed = product(self.per_item, size.fixed).saturating_add(self.fixed);
        Self { fixed, per_item: product(self.per_item, size.per_item) }
    }

    /// Returns the line multiplied by `count`.
    #[must_use]
    pub(super) fn times(self, count: u64) -> Self {
        let count = i128::from(count);
        Self { fixed: product(self.fixed, count), per_item: product(self.per_item, count) }
    }
}

/// Multiplies with saturation. Small factors are multiplied in one instruction.
fn product(left: i128, right: i128) -> i128 {
    match (i64::try_from(left), i64::try_from(right)) {
        (Ok(left), Ok(right)) => i128::from(left) * i128::from(right),
        _ => left.saturating_mul(right),
    }
}

impl Add for Line {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let fixed = self.fixed.saturating_add(other.fixed);
        Self { fixed, per_item: self.per_item.saturating_add(other.per_item) }
    }
}

impl Sub for Line {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let fixed = self.fixed.saturating_sub(other.fixed);
        Self { fixed, per_item: self.per_item.saturating_sub(other.per_item) }
    }
}

/// The upper envelope of many lines at sizes from 1 on: the few lines that are the highest somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope(Vec<Line>);

impl Envelope {
    /// Returns the envelope of `lines` and of the zero line.
    pub(super) fn of(lines: impl Iterator<Item = Line>) -> Self {
        let mut lines: Vec<_> = lines.chain([Line::default()]).collect();
        lines.sort_unstable_by_key(|line| (line.per_item, line.fixed));
        let mut highest: Vec<Line> = Vec::new();
        for line in lines {
            while highest.last().is_some_and(|last| last.at(1) <= line.at(1)) || is_below(&highest, line) {
                highest.pop();
            }
            highest.push(line);
        }
        Self(highest)
    }

    pub(super) fn lines(&self) -> &[Line] {
        &self.0
    }

    /// Returns the line that is the highest at a size.
    pub(super) fn highest(&self, size: u64) -> Line {
        self.0.iter().copied().max_by_key(|line| line.at(size)).unwrap_or_default()
    }
}

/// True if the last line is nowhere above both its neighbors, of which `next` is steeper.
///
/// At the point where the neighbors meet, the last line is at most as high. Products that overflow keep the
/// line, which costs only time.
fn is_below(highest: &[Line], next: Line) -> bool {
    let [.., before, last] = highest else { return false };
    let left = (before.fixed - last.fixed).checked_mul(next.per_item - last.per_item);
    let right = (last.fixed - next.fixed).checked_mul(last.per_item - before.per_item);
    matches!((left, right), (Some(left), Some(right)) if left >= right)
}

/// Returns the largest size of a range at which all lines are at most `bytes`.
pub(super) fn largest(
    mut lines: impl Iterator<Item = Line>,
    bytes: u64,
    sizes: RangeInclusive<u64>,
) -> Option<u64> {
    let (mut least, mut most) = (i128::from(*sizes.start()), i128::from(*sizes.end()));
    lines.try_for_each(|line| {
        let room = i128::from(bytes).saturating_sub(line.fixed);
        match line.per_item {
            0 if room < 0 => return None,
            // The product is tested first, because divisions take longest.
            rises @ 1.. if product(rises, most) > room => most = room.div_euclid(rises),
            falls @ ..0 if product(falls, least) > room => least = -room.div_euclid(-falls),
            _ => {}
        }
        (least <= most).then_some(())
    })?;
    if least <= most { u64::try_from(most).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Envelope, Line, largest};

    fn line(fixed: i128, per_item: i128) -> Line {
        Line { fixed, per_item }
    }

    #[test]
    fn only_lines_that_are_the_highest_somewhere_are_kept() {
        for (lines, kept) in [
            (&[line(5, 1), line(5, 1), line(4, 1)][..], &[line(5, 1)][..]),
            (&[line(100, 0), line(0, 10), line(50, 4)], &[line(100, 0), line(0, 10)]), // below where they meet
            (&[line(100, 0), line(0, 10), line(50, 5)], &[line(100, 0), line(0, 10)]), // through where they meet
            (&[line(100, 0), line(0, 10), line(51, 5)], &[line(100, 0), line(51, 5), line(0, 10)]),
            (&[line(10, 0), line(9, 1)], &[line(9, 1)]), // higher at no size from 1 on
            (&[line(10, 0), line(8, 1)], &[line(10, 0), line(8, 1)]),
            (&[line(-5, -1), line(-50, 0)], &[line(0, 0)]),
            (&[line(90, -1), line(-100, 1)], &[line(90, -1), line(0, 0), line(-100, 1)]),
        ] {
            assert_eq!(Envelope::of(lines.iter().copied()).lines(), kept, "{lines:?}");
        }
    }

    #[test]
    fn lines_whose_products_overflow_are_kept() {
        let (whole, half) = (i128::MAX / 4, i128::MAX / 8);
        let lines = [line(whole, 0), line(half, half - 5), line(-100, whole)];
        let envelope = Envelope::of(lines.into_iter());
        assert_eq!(envelope.lines(), lines);
        assert_eq!(envelope.highest(1), lines[0]);
        assert_eq!(envelope.highest(2), lines[2]);
    }

    #[test]
    fn a_line_that_falls_is_a_lower_bound() {
        let sizes = |lines: &[Line], bytes| largest(lines.iter().copied(), bytes, 1..=100);
        assert_eq!(sizes(&[], 0), Some(100));
        assert_eq!(sizes(&[line(50, -1)], 10), Some(100));
        assert_eq!(sizes(&[line(50, -1), line(0, 1)], 30), Some(30));
        assert_eq!(sizes(&[line(50, -1), line(0, 1)], 25), Some(25));
        assert_eq!(sizes(&[line(50, -1), line(0, 1)], 24), None); // 26 at the least, 24 at the most
        assert_eq!(sizes(&[line(7, 0)], 7), Some(100));
        assert_eq!(sizes(&[line(7, 0)], 6), None);
        assert_eq!(sizes(&[line(0, 3)], 8), Some(2));
        assert_eq!(sizes(&[line(0, 3)], 2), None);
    }
}
