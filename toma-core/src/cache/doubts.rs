//! Counts calls that start from a remembered size, until one of them should probe beyond it.
//!
//! # Why
//!
//! Each thread counts for itself, and the table counts for threads that are too short. A shared counter would be
//! memory that every warm call writes.

use std::cell::Cell;
use std::time::SystemTime;

use super::Remembered;
use crate::clock;
use crate::policy::Doubt;

/// The doubt about a remembered size; it starts anew when something is learned.
#[derive(Debug, Default)]
pub(super) struct RecallDoubts {
    about: Cell<Option<SystemTime>>,
    doubt: Cell<Doubt>,
}

impl RecallDoubts {
    /// Counts a call that may use sizes up to `cap` and starts from `known`. Returns a probe if one is due.
    ///
    /// Each call that starts here follows one that succeeded with the same size, because otherwise the size would
    /// be another now. Calls that cannot use more than the size are not counted.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "copied once, and by registers")]
    pub(super) fn counted(&self, known: Option<&Remembered>, cap: usize) -> Option<Remembered> {
        let known = known?;
        if known.settled < cap && self.is_due(known) { Some(known.probing()) } else { Some(known.clone()) }
    }

    #[inline]
    fn is_due(&self, known: &Remembered) -> bool {
        if self.about.get() != Some(known.learned) {
            self.about.set(Some(known.learned));
            self.doubt.set(Doubt::after(known.failed_probes));
        }
        let mut doubt = self.doubt.get();
        // A clock that was set back counts as no time.
        let is_due = doubt.succeeded(|| clock::wall().duration_since(known.learned).unwrap_or_default());
        self.doubt.set(doubt);
        is_due
    }
}
