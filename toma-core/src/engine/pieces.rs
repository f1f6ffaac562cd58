//! How work is cut: where a piece ends is a function of position and step.

use std::ops::Range;

use super::costs::Costs;

/// How much work there is, and in which unit sizes count it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One piece of whatever size succeeds.
    Batch,
    /// This many items, piece by piece.
    Items(usize),
    /// Items of different costs, in which sizes are counted.
    Packed(Costs),
}

/// How the coming pieces are cut.
#[derive(Debug)]
pub(super) enum Pieces {
    /// Sizes count items up to this end.
    Counted(usize),
    /// Sizes count costs.
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
}

impl Pieces {
    #[inline]
    pub(super) fn of(extent: Extent) -> Self {
        match extent {
            Extent::Batch => Self::Counted(usize::MAX),
            Extent::Items(count) => Self::Counted(count),
            Extent::Packed(costs) => Self::Packed(costs),
        }
    }

    /// One past the last item.
    #[inline]
    pub(super) fn end(&self) -> usize {
        match self {
            Self::Counted(end) => *end,
            Self::Packed(costs) => costs.items(),
        }
    }

    /// The piece from `position` on: the one place that turns position and step into an end.
    #[inline]
    pub(super) fn cut(&self, position: usize, step: usize) -> Cut {
        match self {
            Self::Counted(end) => {
                let size = step.min(end - position);
                Cut { end: position + size, size }
            }
            Self::Packed(costs) => {
                let end = costs.end(position, step);
                Cut { end, size: costs.of(position..end) }
            }
        }
    }

    /// The size of these items.
    #[inline]
    pub(super) fn size(&self, items: Range<usize>) -> usize {
        match self {
            Self::Counted(_) => items.len(),
            Self::Packed(costs) => costs.of(items),
        }
    }

    #[inline]
    pub(super) fn is_packed(&self) -> bool {
        matches!(self, Self::Packed(_))
    }
}
