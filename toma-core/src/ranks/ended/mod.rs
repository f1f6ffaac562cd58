//! Reasons why ranks do not agree, and their conversion to errors of bodies. Depends on no other module.

mod convert;

use std::fmt;
use std::time::Duration;

pub use self::convert::add_error;
pub(crate) use self::convert::{converted, raise};

/// Why a call with `ranks` ends on a rank that has not failed itself.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::Error;
///
/// /// The line that a launcher reads.
/// fn describe(error: &Error) -> String {
///     match error {
///         Error::Missing { ranks, .. } => format!("restart ranks {ranks:?}"),
///         Error::Ended { rank, message, .. } => format!("rank {rank} failed: {message}"),
///         other => other.to_string(),
///     }
/// }
/// assert_eq!(describe(&Error::Invalid("size 0".to_owned())), "size 0");
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A rank has left the call: by an error, a panic, or because it dropped the call.
    Ended {
        /// The rank that left.
        rank: usize,
        /// Number of ranks.
        of: usize,
        /// The call that it left.
        call: String,
        /// The reason.
        message: String,
    },
    /// Ranks did not vote in time.
    Missing {
        /// These ranks.
        ranks: Vec<usize>,
        /// Number of ranks.
        of: usize,
        /// The subject on which they were to vote.
        call: String,
        /// Time for which the other ranks have waited.
        timeout: Duration,
    },
    /// Two ranks run different calls.
    Differ {
        /// A rank and its call.
        one: (usize, String),
        /// Another rank and its call.
        other: (usize, String),
    },
    /// Another call runs over these ranks already.
    Busy {
        /// The call that runs.
        running: String,
        /// The call that was refused because it would have run next to it or inside of it.
        call: String,
    },
    /// The other ranks cannot be reached.
    Store(String),
    /// An invalid rank or size, or a call over ranks where none is allowed.
    Invalid(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { rank, of, call, message } => {
                write!(f, "rank {rank} of {of} ended {call}: {message}")
            }
            Self::Missing { ranks, of, call, timeout } => {
                let names: Vec<_> = ranks.iter().map(usize::to_string).collect();
                let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
                write!(f, "{call}: no vote of {noun} {} of {of} within {timeout:?}", names.join(", "))
            }
            Self::Differ { one, other } => {
                write!(f, "ranks differ: rank {} is at {}, rank {} at {}", one.0, one.1, other.0, other.1)
            }
            Self::Busy { running, call } => {
                write!(f, "{call}: {running} runs over the same ranks, which take one call at a time")
            }
            Self::Store(message) => write!(f, "ranks cannot be reached: {message}"),
            Self::Invalid(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}
