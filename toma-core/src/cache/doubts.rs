//! Counting what calls make of a remembered size, until one of them should probe beyond it.

use std::time::SystemTime;

use super::Remembered;
use crate::clock;
use crate::policy::Doubt;

/// The doubt about what a place remembers, anew whenever it has learned.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    about: Option<SystemTime>,
    doubt: Doubt,
}

impl Doubts {
    /// Counts a call that may use sizes up to `cap` and starts from what is `known`; lets it probe when
    /// that is due.
    ///
    /// A call that starts here has been preceded by one that succeeded with the same size, or else the
    /// size would be another now. Calls that cannot use more say nothing of it.
    #[inline]
    pub(super) fn count(&mut self, known: Option<&mut Remembered>, cap: usize) {
        let Some(known) = known.filter(|known| known.settled < cap) else { return };
        if self.about != Some(known.learned) {
            *self = Self { about: Some(known.learned), doubt: Doubt::after(known.failed_probes) };
        }
        let learned = known.learned;
        // A clock that was set back says nothing.
        known.probes = self.doubt.succeeded(|| clock::wall().duration_since(learned).unwrap_or_default());
    }
}
