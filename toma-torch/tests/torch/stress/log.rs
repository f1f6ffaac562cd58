//! What the attempts of one call have done, held against the rules as they come in.

use std::cell::Cell;
use std::ops::Range;

use crate::nets::Road;

/// So often in a row the same rows may be tried: at first, after a transient failure, and after a wait.
const TRIES: usize = 3;

/// The attempts of one call so far.
#[derive(Debug)]
pub(super) struct Log {
    /// How its failures come out.
    pub(super) road: Road,
    pub(super) position: Cell<usize>,
    /// Rows in the attempt that failed last at this position.
    failed: Cell<Option<usize>>,
    /// Attempts in a row with as many rows.
    tries: Cell<usize>,
    /// A row that runs out of memory alone is left out, and the call fails once all others are done.
    leaves_out: Cell<bool>,
    left_out: Cell<bool>,
}

impl Log {
    pub(super) fn new(road: Road) -> Self {
        Self {
            road,
            position: Cell::new(0),
            failed: Cell::new(None),
            tries: Cell::new(0),
            leaves_out: Cell::new(false),
            left_out: Cell::new(false),
        }
    }

    pub(super) fn leaves_out(&self) {
        self.leaves_out.set(true);
    }

    /// The last failure was of a single row, or of one that was left out.
    pub(super) fn has_failed_alone(&self) -> bool {
        self.failed.get() == Some(1) || self.left_out.get()
    }

    /// The rows that failed last failed the time before, too, or one was left out.
    pub(super) fn has_failed_twice(&self) -> bool {
        self.tries.get() > 1 || self.left_out.get()
    }

    pub(super) fn begin(&self, rows: &Range<usize>) {
        let next = self.position.get() + 1;
        if self.leaves_out.get() && self.failed.get() == Some(1) && rows.start == next {
            self.left_out.set(true);
            self.succeed(&(next - 1..next));
        }
        assert_eq!(rows.start, self.position.get(), "rows are lost or done twice");
        let count = rows.len();
        let again = self.failed.get() == Some(count);
        let smaller = self.failed.get().is_none_or(|failed| count <= failed);
        assert!(smaller, "{rows:?} after {self:?}");
        self.tries.set(if again { self.tries.get() + 1 } else { 1 });
        assert!(self.tries.get() <= TRIES, "{rows:?} once more, without end: {self:?}");
        self.failed.set(Some(count));
    }

    pub(super) fn succeed(&self, rows: &Range<usize>) {
        self.position.set(rows.end);
        self.failed.set(None);
        self.tries.set(0);
    }
}
