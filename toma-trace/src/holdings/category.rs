//! The use of a storage.

use std::fmt;

/// The use of a storage. If several fit, the first counts.
///
/// ```
/// use toma_trace::holdings::{Category, Holding, Holdings};
/// use toma_trace::Place;
///
/// let weight = Holding::new("weight", Category::Parameter, 400);
/// let bytes = Holdings::new(Place::HOST, [weight]).by_category();
/// assert_eq!(bytes[&Category::Parameter], 400);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Category {
    /// A variable that is trained.
    Parameter,
    /// A variable that is not trained.
    Buffer,
    /// The gradient of a variable.
    Gradient,
    /// State that an optimizer keeps between its steps.
    OptimizerState,
    /// A storage that the program has labeled, or that existed before the recording or the attempt that failed.
    Input,
    /// A storage that waits for a backward or, in a program without one, for a later operator.
    Activation,
    /// Any other storage.
    Temporary,
    /// An activation or a temporary: no operators were recorded.
    Unknown,
}

impl Category {
    /// Returns the name, in lower case.
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
