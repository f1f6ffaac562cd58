//! What went wrong: sorting failures into the few classes that decide what happens next.
//!
//! Types are asked before texts, because a type cannot be misread: every link of an error's
//! [`source`](std::error::Error::source) chain is looked at for a type that says out of memory, and
//! only when none does are the texts compared with one table per backend. Both can be extended, with
//! [`add_error`] and [`add_text`].

mod backend;
mod by_text;
mod bytes;
mod chain;
mod error;
mod link;
mod out_of_memory;
mod panic;
mod register;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;
use std::fmt;

#[doc(hidden)]
pub use by_text::classify_text;
pub use chain::classify_error;
pub use error::Classify;
#[doc(hidden)]
pub use error::marker;
pub use out_of_memory::OutOfMemory;
#[doc(hidden)]
pub use panic::classify_panic;
#[doc(hidden)]
pub use register::add_failure;
pub use register::{add_error, add_text};

/// What kind of failure ended an attempt, and so what the engine does next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Memory ran out: the piece is tried again with a smaller size.
    OutOfMemory,
    /// May be memory, may be a hiccup: the same size is tried once more, and then shrunk only
    /// when free memory is low.
    Transient,
    /// The device context is unusable (illegal access, device assert): nothing is tried again.
    Poisoned,
    /// Anything else: goes through unchanged on the first attempt.
    Other,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "out of memory",
            Self::Transient => "transient failure",
            Self::Poisoned => "device context poisoned",
            Self::Other => "other failure",
        })
    }
}

/// One classified failure: its class, and the number of bytes asked for when that is known.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub class: Class,
    /// Bytes the failed allocation asked for, when the error says so.
    pub requested_bytes: Option<u64>,
    /// The error's own words, for events and reports.
    pub message: Cow<'static, str>,
}

impl Failure {
    /// A failure of `class` with the error's own words.
    pub fn new(class: Class, message: impl Into<Cow<'static, str>>) -> Self {
        Self { class, requested_bytes: None, message: message.into() }
    }

    /// The same failure with the number of bytes that were asked for.
    #[must_use]
    pub fn requesting(self, bytes: Option<u64>) -> Self {
        Self { requested_bytes: bytes, ..self }
    }
}
