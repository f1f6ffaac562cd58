//! Attempts of one call, checked against the rules as they come in.

use std::cell::Cell;
use std::ops::Range;

use crate::nets::Road;

/// The most tries of the same rows in a row: at first, after a transient failure, and after a wait.
const TRIES: usize = 3;

/// The attempts of one call so far.
#[derive(Debug)]
pub(super) struct Log {
    /// The form of its failures.
    pub(super) road: Road,
    pub(super) position: Cell<usize>,
    /// Rows in the last failed attempt at this position.
    failed: Cell<Option<usize>>,
    /// Consecutive attempts with as many rows.
    tries: Cell<usize>,
    /// True if a row that runs out of memory alone is left out, so that the call fails once all others are done.
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

    /// Returns true if the last failure was of a single row, or of one that was left out.
    pub(super) fn has_failed_alone(&self) -> bool {
        self.failed.get() == Some(1) || self.left_out.get()
    }

    /// Returns true if the rows that failed last had failed the time before, or one was left out.
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
