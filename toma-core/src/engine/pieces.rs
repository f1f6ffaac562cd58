//! Cutting work into pieces: the end of a piece is a function of position and step.

use std::ops::Range;

use super::costs::Costs;

/// Amount of work, and the unit in which sizes count it.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// One past the last item.
    pub(super) end: usize,
    /// True for a batch: one piece, at the size that succeeds.
    pub(super) single: bool,
    /// True if pieces are as even as can be, and no larger than the step.
    pub(super) even: bool,
    /// Costs of the items, if sizes count costs.
    pub(super) costs: Option<Costs>,
}

/// A piece that was cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    pub(super) end: usize,
    /// Size of the piece, in units of the step.
    pub(super) size: usize,
}

impl Extent {
    pub(crate) const BATCH: Self = Self { end: usize::MAX, single: true, even: false, costs: None };

    /// This many items, piece by piece.
    #[inline]
    pub(crate) const fn of(items: usize) -> Self {
        Self { end: items, single: false, even: false, costs: None }
    }

    /// This many items, in even pieces.
    pub(crate) fn even(items: usize) -> Self {
        Self { even: true, ..Self::of(items) }
    }

    /// Items of different costs.
    pub(crate) fn packed(costs: Costs) -> Self {
        let items = costs.items();
        Self { costs: Some(costs), ..Self::of(items) }
    }

    /// Number of items; unknown in a batch.
    #[inline]
    pub(crate) fn items(&self) -> Option<usize> {
        (!self.single).then_some(self.end)
    }

    /// Cost of all items, if sizes count costs.
    #[inline]
    pub(crate) fn cost(&self) -> Option<usize> {
        self.costs.as_ref().map(|costs| costs.of(0..self.end))
    }

    /// Cuts the piece that begins at `position`. No other code computes the end of a piece.
    #[inline]
    pub(super) fn cut(&self, position: usize, step: usize) -> Cut {
        if let Some(costs) = &self.costs {
            let end = costs.end(position, step);
            return Cut { end, size: costs.of(position..end) };
        }
        let left = self.end - position;
        let size = if self.even { left.div_ceil(left.div_ceil(step).max(1)) } else { step.min(left) };
        Cut { end: position + size, size }
    }

    /// Size of these items, in units of the step.
    #[inline]
    pub(super) fn size(&self, items: Range<usize>) -> usize {
        if let Some(costs) = &self.costs { costs.of(items) } else { items.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::Extent;

    #[test]
    fn even_pieces_are_as_few_as_can_be_and_differ_by_one_at_most() {
        for items in 1..60 {
            for step in 1..70 {
                let (extent, mut position, mut sizes) = (Extent::even(items), 0, Vec::new());
                while position < items {
                    let cut = extent.cut(position, step);
                    sizes.push(cut.size);
                    position = cut.end;
                }
                assert_eq!((sizes.iter().sum::<usize>(), sizes.len()), (items, items.div_ceil(step)));
                let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
                assert!(first <= step && first - last <= 1 && sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
            }
        }
    }
}
