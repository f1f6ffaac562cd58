//! How work is cut: where a piece ends is a function of position and step.

use std::ops::Range;

use super::costs::Costs;

/// How much work there is, and in which unit sizes count it.
#[derive(Debug)]
pub(crate) struct Extent {
    /// One past the last item.
    pub(super) end: usize,
    /// One piece of whatever size succeeds.
    pub(super) single: bool,
    /// What items cost, where sizes are counted in that.
    pub(super) costs: Option<Costs>,
}

/// A piece that was cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    pub(super) end: usize,
    /// In units of the step.
    pub(super) size: usize,
}

impl Extent {
    pub(crate) const BATCH: Self = Self { end: usize::MAX, single: true, costs: None };

    /// This many items, piece by piece.
    #[inline]
    pub(crate) const fn of(items: usize) -> Self {
        Self { end: items, single: false, costs: None }
    }

    /// Items of different costs.
    pub(crate) fn packed(costs: Costs) -> Self {
        Self { end: costs.items(), single: false, costs: Some(costs) }
    }

    /// Items in all; unknown in a batch.
    #[inline]
    pub(crate) fn items(&self) -> Option<usize> {
        (!self.single).then_some(self.end)
    }

    /// The piece from `position` on: the one place that turns position and step into an end.
    #[inline]
    pub(super) fn cut(&self, position: usize, step: usize) -> Cut {
        if let Some(costs) = &self.costs {
            let end = costs.end(position, step);
            return Cut { end, size: costs.of(position..end) };
        }
        let size = step.min(self.end - position);
        Cut { end: position + size, size }
    }

    /// The size of these items.
    #[inline]
    pub(super) fn size(&self, items: Range<usize>) -> usize {
        if let Some(costs) = &self.costs { costs.of(items) } else { items.len() }
    }
}
