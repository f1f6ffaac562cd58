//! Doubts about a step in the middle of a call: one burst of other work must not pin a long range to a small step.

use std::time::Instant;

use crate::clock;
use crate::policy::Doubt;

/// Schedule of attempts at twice the step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubts {
    doubt: Doubt,
    /// Doubts that had failed in a row when the last one began.
    failed: u32,
    since: Option<Instant>,
}

impl Doubts {
    /// Counts a success. Returns true if the next attempt should be at twice the size.
    ///
    /// The clock is read only when enough successes are counted. The first reading begins the wait.
    #[inline(never)]
    pub(super) fn succeeded(&mut self) -> bool {
        let since = &mut self.since;
        self.doubt.succeeded(|| {
            let now = clock::now();
            now.saturating_duration_since(*since.get_or_insert(now))
        })
    }

    /// Begins a doubt. Successes and time are counted anew unless it fails.
    pub(super) fn begins(&mut self) {
        *self = Self { doubt: Doubt::default(), failed: self.doubt.failed(), since: None };
    }

    /// Records that the doubt has failed: the required successes and time double.
    pub(super) fn fails(&mut self) {
        *self = Self { doubt: Doubt::after(self.failed + 1), ..*self };
    }
}
