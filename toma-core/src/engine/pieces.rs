//! How work is cut: where a piece ends is a function of position and step.

use std::ops::Range;

use super::costs::Costs;

/// How much work there is, and in which unit sizes count it.
#[derive(Debug)]
pub(crate) enum Extent {
    /// One piece of whatever size succeeds.
    Batch,
    /// This many items, piece by piece.
    Items(usize),
    /// Items of different costs, in which sizes are counted.
    Packed(Costs),
}

/// A piece that was cut.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cut {
    pub(super) end: usize,
    /// In units of the step.
    pub(super) size: usize,
}

impl Extent {
    /// Items in all; unknown in a batch.
    #[inline]
    pub(crate) fn items(&self) -> Option<usize> {
        match self {
            Self::Batch => None,
            Self::Items(count) => Some(*count),
            Self::Packed(costs) => Some(costs.items()),
        }
    }

    /// One past the last item.
    #[inline]
    pub(super) fn end(&self) -> usize {
        self.items().unwrap_or(usize::MAX)
    }

    /// The piece from `position` on: the one place that turns position and step into an end.
    #[inline]
    pub(super) fn cut(&self, position: usize, step: usize) -> Cut {
        if let Self::Packed(costs) = self {
            let end = costs.end(position, step);
            return Cut { end, size: costs.of(position..end) };
        }
        let size = step.min(self.end() - position);
        Cut { end: position + size, size }
    }

    /// The size of these items.
    #[inline]
    pub(super) fn size(&self, items: Range<usize>) -> usize {
        if let Self::Packed(costs) = self { costs.of(items) } else { items.len() }
    }
}
