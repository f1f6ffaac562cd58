//! The clock of a trace.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of events so far in one trace. Each birth, death, use, begin and end has its own tick, on any thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tick(u64);

impl Tick {
    /// The moment before the first event.
    pub const START: Self = Self(0);

    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the number of events so far, this one included.
    #[must_use]
    pub fn count(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
