//! The sizes and failures that a machine has learned from.

use crate::policy::{Bounds, Measurements};

/// What this call has learned.
///
/// The step in force after a shrink settles once it has succeeded, and without a failure only a step beyond all
/// that worked before: so no later call is lowered. A step that a measuring policy has changed settles in any
/// case: it has its reasons.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learning {
    pub(super) moved: bool,
    /// The largest step known to work: where the call started, then what it settled.
    pub(super) best: usize,
    pub(super) settled: Option<usize>,
}

impl Learning {
    pub(super) fn beyond(best: usize) -> Self {
        Self { moved: false, best, settled: None }
    }
}

/// What there is besides where sizes are costs.
///
/// A piece that fails may be too large, or hold a single item that does not fit by itself. Its items tell: from
/// the first failure on the step only shrinks, until all of them are done, or one fails by itself. In the second
/// case what was known before is known again.
#[derive(Clone, Debug, Default)]
pub(super) struct Packing {
    pub(super) search: Option<Search>,
    /// The step at which the last size settled. Pieces are of any size up to the step, and the largest that ran
    /// at one step is what is known to work.
    pub(super) settled_at: Option<usize>,
    /// The largest size that has succeeded since an item was left out at the floor.
    pub(super) fits: Option<usize>,
    /// The largest size that has succeeded since it was asked for.
    pub(super) ran: usize,
}

/// A failed piece whose items are not all done.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// Where the piece ends.
    pub(super) end: usize,
    pub(super) before: Snapshot,
}

/// What was known before the piece failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    pub(super) step: usize,
    pub(super) bounds: Bounds,
    pub(super) measurements: Option<Measurements>,
    pub(super) learning: Learning,
    pub(super) settled_at: Option<usize>,
}
