use std::fmt;

/// Why a call gave up, and its last failure went through.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The failure has nothing to do with memory.
    NotOutOfMemory,
    /// The failure was transient twice, and there is memory.
    FailedAgain,
    /// No smaller size is allowed.
    NothingSmaller,
    /// The option `max_attempts` allows no more.
    MaxAttempts,
    /// The option `deadline` allows no more.
    Deadline,
    /// Somebody has [cancelled](crate::share::Cancel) the call.
    Cancelled,
    /// An item was left out because it failed [alone](crate::execute::With::by_cost), and nobody takes care
    /// of it: all others were tried first.
    FailedAlone,
    /// Others held memory of the device, and the attempt [around](crate::ladder#loops-inside-attempts) the call
    /// waits until they have ended and is made anew: a fallback, or leaving an item out, comes after that.
    GaveWay,
    /// Nothing works on this device any more.
    Poisoned,
    /// `TOMA_DISABLE` is set.
    Disabled,
}

impl Reason {
    /// The reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotOutOfMemory => "not out of memory",
            Self::FailedAgain => "failed again at the same size, and memory is not low",
            Self::NothingSmaller => "no smaller size is allowed",
            Self::MaxAttempts => "max_attempts is reached",
            Self::Deadline => "the deadline has passed",
            Self::Cancelled => "the call is cancelled",
            Self::FailedAlone => "an item failed alone, and nobody takes care of it",
            Self::GaveWay => "others held memory of the device, and the attempt around it waits for them",
            Self::Poisoned => "the device context is poisoned",
            Self::Disabled => "TOMA_DISABLE is set",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
