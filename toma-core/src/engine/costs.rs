//! Costs of items, where sizes are costs instead of counts.
//!
//! # Why
//!
//! Sums take 16 bytes for each item. With them the end of a piece is found by bisection, and a retry
//! does not ask for costs again. Where items are padded, costs do not add up: the end is found by walking over the
//! piece.
//!
//! Calls that count items pay one check for costs. State about packed pieces is in a box, and the constant
//! `Work::LEAVES_OUT` is true if items may be left out.

use std::iter;
use std::ops::Range;

/// The costs of all items. With them the end of a piece is a function of position and step.
///
/// Costs are read once, before the first attempt, so that a cost that panics loses no work.
#[derive(Clone, Debug)]
pub(crate) enum Costs {
    /// The cost of all items before each position. Sums of 128 bits cannot overflow, so that no cost is too
    /// large to be compared.
    Sums(Box<[u128]>),
    /// The length of each item and the longest from it on, where all items of a piece are padded to the longest.
    Padded(Box<[[u64; 2]]>, Padding),
}

/// The cost of `rows` that are padded to `longest`: `fn(rows, longest)`.
pub(crate) type Padding = fn(u64, u64) -> u64;

impl Costs {
    /// Reads the cost of each item, once. An item costs at least 1, so that a step can always separate items.
    ///
    /// # Panics
    /// When there is no memory for the sums.
    pub(crate) fn of_each(items: usize, mut cost: impl FnMut(usize) -> u64) -> Self {
        let mut sum = 0;
        let sums = (0..items).map(|position| {
            sum += u128::from(cost(position).max(1));
            sum
        });
        Self::Sums(kept("by_cost: the sums", items, iter::once(0).chain(sums)))
    }

    /// Costs of items that are padded to the longest of their piece.
    ///
    /// # Panics
    /// When there is no memory for the lengths.
    pub(crate) fn padded(items: usize, mut length: impl FnMut(usize) -> u64, padding: Padding) -> Self {
        let lengths = (0..items).map(|position| [length(position); 2]);
        let mut lengths = kept("by_padded_cost: the lengths", items, lengths);
        // The cost of all remaining items is read after each piece.
        lengths.iter_mut().rev().fold(0, |longest, [length, longest_from_here]| {
            *longest_from_here = longest.max(*length);
            *longest_from_here
        });
        Self::Padded(lengths, padding)
    }

    pub(crate) fn items(&self) -> usize {
        match self {
            Self::Sums(sums) => sums.len() - 1,
            Self::Padded(lengths, _) => lengths.len(),
        }
    }

    /// Returns the end of the piece that begins at `position`: as many items as cost at most `step` together, or one
    /// if the first alone costs more.
    pub(super) fn end(&self, position: usize, step: usize) -> usize {
        let fit = match self {
            Self::Sums(sums) => {
                let limit = sums[position] + widen(step);
                sums[position + 1..].partition_point(|&sum| sum <= limit)
            }
            Self::Padded(lengths, padding) => {
                let longest = lengths[position..].iter().scan(0, |longest, &[length, _]| {
                    *longest = length.max(*longest);
                    Some(*longest)
                });
                longest
                    .zip(1..)
                    .take_while(|&(longest, rows)| padded(*padding, rows, longest) <= step)
                    .count()
            }
        };
        position + fit.max(1)
    }

    /// Cost of these items together, at most `usize::MAX`.
    pub(crate) fn of(&self, items: Range<usize>) -> usize {
        match self {
            Self::Sums(sums) => usize::try_from(sums[items.end] - sums[items.start]).unwrap_or(usize::MAX),
            Self::Padded(lengths, padding) => {
                let rows = items.len();
                let longest = if items.end == lengths.len() {
                    lengths.get(items.start).map(|&[_, longest]| longest)
                } else {
                    lengths[items].iter().map(|&[length, _]| length).max()
                };
                let rows = u64::try_from(rows).unwrap_or(u64::MAX);
                longest.map_or(0, |longest| padded(*padding, rows, longest))
            }
        }
    }
}

fn kept<T>(name: &str, items: usize, values: impl Iterator<Item = T>) -> Box<[T]> {
    let mut all = with_room(name, items);
    all.extend(values);
    all.into_boxed_slice()
}

/// Allocates room for one value per item, and one more.
///
/// # Panics
/// When there is no memory for that, with the name.
pub(crate) fn with_room<T>(name: &str, items: usize) -> Vec<T> {
    let mut all = Vec::new();
    let reserved = all.try_reserve_exact(items.saturating_add(1));
    reserved.unwrap_or_else(|error| panic!("{name} of {items} items: {error}"));
    all
}

fn padded(padding: Padding, rows: u64, longest: u64) -> usize {
    usize::try_from(padding(rows, longest).max(1)).unwrap_or(usize::MAX)
}

fn widen(size: usize) -> u128 {
    u128::try_from(size).expect("a size fits in 128 bits")
}

#[cfg(test)]
mod tests {
    use super::Costs;

    fn costs(of_items: &[u64]) -> Costs {
        Costs::of_each(of_items.len(), |position| of_items[position])
    }

    fn ends(costs: &Costs, step: usize) -> Vec<usize> {
        let next = |&end: &usize| (end < costs.items()).then(|| costs.end(end, step));
        std::iter::successors(Some(0), next).skip(1).collect()
    }

    #[test]
    fn padded_items_cost_as_many_rows_of_the_longest() {
        let padded = |padding| Costs::padded(5, |position| [2, 3, 1, 1, 4][position], padding);
        let area = padded(u64::saturating_mul);
        assert_eq!(ends(&area, 6), [2, 4, 5]);
        assert_eq!(ends(&area, 9), [3, 5]);
        assert_eq!(ends(&area, 1), [1, 2, 3, 4, 5]);
        assert_eq!((area.of(0..2), area.of(2..4), area.of(0..5), area.of(1..1)), (6, 2, 20, 0));
        let squared = padded(|rows, longest| rows * longest * longest);
        assert_eq!((squared.of(0..2), ends(&squared, 12)), (18, vec![1, 2, 4, 5]));
    }

    #[test]
    fn sums_do_not_overflow() {
        let costs = costs(&[u64::MAX, u64::MAX, 1, u64::MAX]);
        assert_eq!(ends(&costs, usize::MAX), [1, 2, 3, 4]);
        assert_eq!((costs.of(0..4), costs.of(2..3)), (usize::MAX, 1));
    }
}
