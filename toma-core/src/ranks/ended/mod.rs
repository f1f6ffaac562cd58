//! Why ranks do not agree, and errors of bodies made of that. A leaf.

mod convert;

use std::fmt;
use std::time::Duration;

pub use self::convert::add_error;
pub(crate) use self::convert::{converted, raise};

/// Why a call with `ranks` ends on a rank that has not failed itself.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A rank has left the call: by an error, a panic, or because it dropped the call.
    Ended {
        /// The rank that left.
        rank: usize,
        /// How many ranks there are.
        of: usize,
        /// What it left.
        call: String,
        /// Why.
        message: String,
    },
    /// Ranks did not vote in time.
    Missing {
        /// These ranks.
        ranks: Vec<usize>,
        /// How many there are.
        of: usize,
        /// What they were to vote about.
        call: String,
        /// How long the others have waited.
        timeout: Duration,
    },
    /// Two ranks run different calls.
    Differ {
        /// A rank, and what it runs.
        one: (usize, String),
        /// Another rank, and what that runs.
        other: (usize, String),
    },
    /// Something runs over these ranks already.
    Busy {
        /// What runs.
        running: String,
        /// What was to run beside it or inside of it.
        call: String,
    },
    /// The others cannot be reached.
    Store(String),
    /// What ranks were to be made of, or where they were asked.
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
