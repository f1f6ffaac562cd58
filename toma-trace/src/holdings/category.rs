//! What a storage is for.

use std::fmt;

/// What a storage is for. Where several fit, the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Category {
    /// A variable that is trained.
    Parameter,
    /// Another variable.
    Buffer,
    /// The gradient of a variable.
    Gradient,
    /// What an optimizer keeps between its steps.
    OptimizerState,
    /// What the program has labeled, or had before the recording or the attempt that failed.
    Input,
    /// What waits for a backward; in a program without one, for a later operator.
    Activation,
    /// All else.
    Temporary,
    /// An activation or a temporary: no operators were recorded.
    Unknown,
}

impl Category {
    /// Its name, in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Parameter => "parameter",
            Self::Buffer => "buffer",
            Self::Gradient => "gradient",
            Self::OptimizerState => "optimizer state",
            Self::Input => "input",
            Self::Activation => "activation",
            Self::Temporary => "temporary",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
