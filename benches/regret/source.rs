//! What policies see of a memory.

use std::io;
use std::time::Duration;

use toma::memory::{MemorySource, Reading, Usage};

/// What the memory source knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The calls are not told of it: the option `device` is left out.
    Unknown,
    /// Free bytes can be read.
    Reads,
    /// What is allocated is counted.
    Counts,
    /// Free bytes can be read, and a dry run says what fits.
    Predicted,
}

impl Source {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Unknown => "none",
            Self::Reads => "reads",
            Self::Counts => "counts",
            Self::Predicted => "dry run",
        }
    }
}

/// A memory as the source shows it.
#[derive(Debug)]
pub(crate) struct Shown<'a>(pub(crate) &'a dyn MemorySource, pub(crate) Source);

impl Shown<'_> {
    /// What the option `device` is given, if it is.
    pub(crate) fn device(&self) -> Option<&dyn MemorySource> {
        (self.1 != Source::Unknown).then_some(self)
    }
}

impl MemorySource for Shown<'_> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn read(&self) -> io::Result<Reading> {
        self.0.read()
    }

    fn usage(&self) -> Option<Usage> {
        self.0.usage().filter(|_| self.1 == Source::Counts)
    }

    fn reset_peak(&self) {
        self.0.reset_peak();
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}
