//! The sizes and failures that a machine has learned from.

use crate::policy::{Bounds, Measurements};

/// Sizes that this call has learned.
///
/// After a shrink, the current step settles once it has succeeded. Without a failure, only a step beyond all that
/// worked before settles, so that a call does not lower the size of later ones. A step that a measuring policy has
/// changed settles in any case, because measurements are its reason.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learning {
    pub(super) moved: bool,
    /// The largest step known to work: the one at which the call started, then the settled one.
    pub(super) best: usize,
    pub(super) settled: Option<usize>,
}

impl Learning {
    pub(super) fn beyond(best: usize) -> Self {
        Self { moved: false, best, settled: None }
    }
}

/// Additional state where sizes are costs.
///
/// A piece that fails may be too large, or contain a single item that does not fit by itself. To find out, the step
/// only shrinks from the first failure on, until all items of the piece are done or one fails by itself. In the
/// second case the state from before the failure is restored.
#[derive(Clone, Debug, Default)]
pub(super) struct Packing {
    pub(super) search: Option<Search>,
    /// The step at which the last size settled. Pieces are of any size up to the step, so the largest that ran at one
    /// step counts as known to work.
    pub(super) settled_at: Option<usize>,
    /// The largest size that has succeeded since an item was left out at the floor.
    pub(super) fits: Option<usize>,
    /// The largest size that has succeeded since the last `take_ran`.
    pub(super) ran: usize,
}

/// A failed piece whose items are not all done.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// End of the piece.
    pub(super) end: usize,
    pub(super) before: Snapshot,
}

/// State from before the piece failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    pub(super) step: usize,
    pub(super) bounds: Bounds,
    pub(super) measurements: Option<Measurements>,
    pub(super) learning: Learning,
    pub(super) settled_at: Option<usize>,
}
