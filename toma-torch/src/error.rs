use std::fmt;
use std::io;

use tch::TchError;
use toma_core::classify::{Class, Classify as _};

/// What libtorch could not do, told by type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What kind of failure an [`Error`] is.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Memory ran out.
    OutOfMemory,
    /// There is no such device, or this program's libtorch does not know its kind.
    NoDevice,
    /// The device is there, and cannot do it.
    Unsupported,
    /// Anything else.
    Other,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self { kind, message }
    }

    /// What kind of failure it is.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            ErrorKind::OutOfMemory => io::ErrorKind::OutOfMemory,
            ErrorKind::NoDevice => io::ErrorKind::NotFound,
            ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::Other => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl From<TchError> for Error {
    fn from(error: TchError) -> Self {
        let is_out_of_memory = error.classify().class == Class::OutOfMemory;
        let kind = if is_out_of_memory { ErrorKind::OutOfMemory } else { ErrorKind::Other };
        Self::new(kind, error.to_string())
    }
}

/// For bodies that return errors of tch.
impl From<Error> for TchError {
    fn from(error: Error) -> Self {
        Self::Torch(error.message)
    }
}
