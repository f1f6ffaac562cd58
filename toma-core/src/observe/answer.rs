use std::fmt;

use super::Reason;
use crate::device::Rung;
use crate::ranks::Elsewhere;

/// The engine's answer to a failure.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::observe::Answer;
/// use toma::{NoCache, classify::OutOfMemory, execute, report};
///
/// execute::with::<NoCache>().batch(8, |size| if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) })?;
/// let tried = &report::last().unwrap().tried;
/// assert_eq!(tried[0].answer, Some(Answer::Shrink(4)));
/// assert_eq!(Answer::Shrink(4).to_string(), "shrinks to 4");
/// # Ok::<(), OutOfMemory>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The same size is tried once more, on this rung of the [ladder](crate::device).
    Again(Rung),
    /// This smaller size is tried.
    Shrink(usize),
    /// Nothing smaller is left: the rest of the call runs in [fallback](crate::device::falls_back), first at this
    /// size.
    FallBack(usize),
    /// A single item does not fit by itself: the rest of the call runs without it.
    LeaveOut {
        /// The item.
        index: usize,
        /// The cost of the item.
        cost: usize,
    },
    /// The attempt has failed on another [rank](crate::ranks), so all ranks make it again at this size.
    Follow {
        /// The size.
        to: usize,
        /// The failure.
        elsewhere: Elsewhere,
    },
    /// The failure is returned to the caller, for this reason.
    GiveUp(Reason),
}

/// Formats the answer in a few words: `shrinks to 8`.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Again(Rung::Transient) => f.write_str("tries it once more"),
            Self::Again(Rung::Release) => f.write_str("tries it once more, cached memory released"),
            Self::Again(Rung::Exclusive) => f.write_str("tries it once more, with the device to itself"),
            Self::Again(Rung::Leaner) => f.write_str("tries it once more, a leaner plan asked for"),
            Self::Again(Rung::Hooks) => f.write_str("tries it once more, release hooks asked"),
            Self::Shrink(to) => write!(f, "shrinks to {to}"),
            Self::FallBack(to) => write!(f, "falls back, from {to}"),
            Self::Follow { to, elsewhere } => write!(f, "goes on at {to} ({elsewhere})"),
            Self::LeaveOut { index, cost } => {
                write!(f, "leaves out item {index}, which costs {cost}")
            }
            Self::GiveUp(reason) => write!(f, "gives up: {reason}"),
        }
    }
}
