//! Counting what calls make of a remembered size, until one of them should probe beyond it.
//!
//! # Why
//!
//! Each thread counts for itself, and the table counts for threads that are too short. A shared counter
//! would be memory that every warm call writes.

use std::cell::Cell;
use std::time::SystemTime;

use super::Remembered;
use crate::clock;
use crate::policy::Doubt;

/// The doubt about what a place remembers, anew whenever it has learned.
#[derive(Debug, Default)]
pub(super) struct RecallDoubts {
    about: Cell<Option<SystemTime>>,
    doubt: Cell<Doubt>,
}

impl RecallDoubts {
    /// Counts a call that may use sizes up to `cap` and starts from what is `known`; it probes where that is due.
    ///
    /// A call that starts here has been preceded by one that succeeded with the same size, or else the
    /// size would be another now. Calls that cannot use more say nothing of it.
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
        // A clock that was set back says nothing.
        let is_due = doubt.succeeded(|| clock::wall().duration_since(known.learned).unwrap_or_default());
        self.doubt.set(doubt);
        is_due
    }
}
