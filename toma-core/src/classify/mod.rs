//! Classification of failures into the few classes that decide the next step.
//!
//! Types come before texts, because a type cannot be misread: every link of an error's
//! [`source`](std::error::Error::source) chain is checked for a type that is out of memory, and only if there is
//! none, the texts are compared with one table per backend. Both can be extended, with [`add_error`] and
//! [`add_text`].

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

/// Kind of a failure that ended an attempt; it decides the engine's next step.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::collections::TryReserveError;
/// use toma::classify::{Class, classify_error};
///
/// let error: TryReserveError = Vec::<u8>::new().try_reserve(usize::MAX).unwrap_err();
/// assert_eq!(classify_error(&error).class, Class::OutOfMemory);
/// assert_eq!(classify_error(&std::fmt::Error).class, Class::Other);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Memory ran out: the piece is tried again with a smaller size.
    OutOfMemory,
    /// Possibly memory, possibly a passing fault: the same size is tried once more, and then shrunk only if free
    /// memory is low.
    Transient,
    /// The device context is unusable (illegal access, device assert): nothing is tried again.
    Poisoned,
    /// Anything else: reaches the caller unchanged at the first attempt.
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

/// One classified failure: its class, and the requested bytes if they are known.
///
/// From an option `classify`, for an error that knows how many bytes were requested:
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::{Class, Failure};
/// use toma::{NoCache, execute};
///
/// struct Refused {
///     bytes: u64,
/// }
///
/// fn classify(error: &Refused) -> Failure {
///     Failure::new(Class::OutOfMemory, "the pool is empty").requesting(Some(error.bytes))
/// }
///
/// let form = execute::with::<NoCache>().classify(classify);
/// let size = form.batch(8, |size| if size > 2 { Err(Refused { bytes: 1000 }) } else { Ok(size) });
/// assert!(size.is_ok_and(|size| size == 2));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub class: Class,
    /// Bytes that the failed allocation requested, if the error has them.
    pub requested_bytes: Option<u64>,
    /// The error's own message, for events and reports.
    pub message: Cow<'static, str>,
}

impl Failure {
    /// A failure of `class` with the error's own message.
    pub fn new(class: Class, message: impl Into<Cow<'static, str>>) -> Self {
        Self { class, requested_bytes: None, message: message.into() }
    }

    /// Sets the requested bytes.
    #[must_use]
    pub fn requesting(self, bytes: Option<u64>) -> Self {
        Self { requested_bytes: bytes, ..self }
    }
}
