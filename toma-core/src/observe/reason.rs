use std::fmt;

/// The reason why a call gave up and returned its last failure to the caller.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::observe::Reason;
/// use toma::{NoCache, classify::OutOfMemory, execute, report};
///
/// let form = execute::with::<NoCache>().min(4);
/// let failed = form.batch(8, |_| Err::<(), _>(OutOfMemory::new(None)));
/// assert!(failed.is_err());
/// assert_eq!(report::last().unwrap().gave_up, Some(Reason::NothingSmaller));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The failure has nothing to do with memory.
    NotOutOfMemory,
    /// The failure was transient twice at the same size, and memory is not low.
    FailedAgain,
    /// No smaller size is allowed.
    NothingSmaller,
    /// The option `max_attempts` allows no more.
    MaxAttempts,
    /// The option `deadline` allows no more.
    Deadline,
    /// The call was [cancelled](crate::device::Cancel).
    Cancelled,
    /// A single item does not fit by itself, and the call has no [`left_out`](crate::execute::With::left_out).
    /// All other items were done first.
    LeftOut,
    /// The device was contended, and an [enclosing attempt](crate::device#loops-inside-attempts), if it fails, is
    /// retried with the device to itself.
    GaveWay,
    /// Another [rank](crate::ranks) has ended the call.
    EndedElsewhere,
    /// The device's context is poisoned: nothing works on the device any more.
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
            Self::LeftOut => "a single item does not fit by itself",
            Self::GaveWay => {
                "the device was contended, and the enclosing attempt, if it fails, is retried with the device to itself"
            }
            Self::EndedElsewhere => "another rank has ended the call",
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
