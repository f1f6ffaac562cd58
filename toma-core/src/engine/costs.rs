//! What items cost, where sizes are costs instead of counts.
//!
//! # Why
//!
//! The sums take 16 bytes for each item. With them the end of a piece is found by bisection, and a retry
//! does not ask for costs again.
//!
//! Calls that count items pay one look for costs. What is learned of packed pieces is in a box. At compile
//! time `Work::LEAVES_OUT` says whether items may be left out.

use std::ops::Range;

/// The end of a piece is a function of position and step; here is what it takes besides: for each
/// position, what the items before it cost together.
///
/// Sums of 128 bits cannot overflow, so that no cost is too large to be compared. They are taken once,
/// before the first attempt: a cost that panics then costs no work.
#[derive(Clone, Debug)]
pub(crate) struct Costs(Box<[u128]>);

impl Costs {
    /// Asks for the cost of each item, once. An item costs at least 1, so that a step can always tell items
    /// apart.
    ///
    /// # Panics
    /// When there is no memory for the sums.
    pub(crate) fn of_each(items: usize, mut cost: impl FnMut(usize) -> u64) -> Self {
        let mut sum = 0;
        let mut sums = Vec::new();
        let reserved = sums.try_reserve_exact(items.saturating_add(1));
        reserved.unwrap_or_else(|error| panic!("by_cost: the sums of {items} items: {error}"));
        sums.push(sum);
        sums.extend((0..items).map(|position| {
            sum += u128::from(cost(position).max(1));
            sum
        }));
        Self(sums.into_boxed_slice())
    }

    pub(crate) fn items(&self) -> usize {
        self.0.len() - 1
    }

    /// Where the piece from `position` ends: as many items as cost at most `step` together, and one
    /// where the first alone costs more.
    pub(super) fn end(&self, position: usize, step: usize) -> usize {
        let limit = self.0[position] + widen(step);
        let fit = self.0[position + 1..].partition_point(|&sum| sum <= limit);
        position + fit.max(1)
    }

    /// What these items cost together, at most the largest size there is.
    pub(crate) fn of(&self, items: Range<usize>) -> usize {
        let cost = self.0[items.end] - self.0[items.start];
        usize::try_from(cost).unwrap_or(usize::MAX)
    }
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
    fn pieces_are_as_full_as_the_step_allows() {
        assert_eq!(ends(&costs(&[3, 3, 3, 4, 1, 1]), 6), [2, 3, 6]);
        assert_eq!(ends(&costs(&[3, 3, 3, 4, 1, 1]), 7), [2, 4, 6]);
    }

    #[test]
    fn an_item_over_the_step_is_a_piece_of_its_own() {
        assert_eq!(ends(&costs(&[1, 1, 9, 1, 1, 1]), 5), [2, 3, 6]);
    }

    #[test]
    fn an_item_costs_at_least_1() {
        assert_eq!(ends(&costs(&[0, 0, 0, 2]), 2), [2, 3, 4]);
    }

    #[test]
    fn sums_do_not_overflow() {
        let costs = costs(&[u64::MAX, u64::MAX, 1, u64::MAX]);
        assert_eq!(ends(&costs, usize::MAX), [1, 2, 3, 4]);
        assert_eq!((costs.of(0..4), costs.of(2..3)), (usize::MAX, 1));
    }
}
