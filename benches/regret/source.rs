//! The memory source that policies see.

use std::io;
use std::time::Duration;

use toma::memory::{MemorySource, Reading, Usage};

/// The information that the memory source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The calls get no source: the option `device` is left out.
    Unknown,
    /// Free bytes can be read.
    Reads,
    /// Allocated bytes are counted.
    Counts,
    /// Free bytes can be read, and a dry run predicts the size that fits.
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
    /// The value of the option `device`, if any.
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
