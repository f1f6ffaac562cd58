//! The crate's own error, which is out of memory by its type.

use std::error::Error;
use std::fmt;

/// Memory ran out: an error that is out of memory by its type, so that its text does not matter.
///
/// For allocators, fakes and bodies that know for certain that memory ran out. Any error with this type in its
/// chain of sources is classified as out of memory, and so is a panic with it as payload.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::{Class, Classify, OutOfMemory};
///
/// let error = OutOfMemory::new(Some(1 << 20));
/// assert_eq!(error.to_string(), "out of memory: tried to allocate 1048576 bytes");
/// assert_eq!(error.classify().class, Class::OutOfMemory);
/// assert_eq!(error.classify().requested_bytes, Some(1 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutOfMemory {
    requested_bytes: Option<u64>,
}

impl OutOfMemory {
    /// Memory ran out in an allocation of `requested_bytes`, if that is known.
    pub const fn new(requested_bytes: Option<u64>) -> Self {
        Self { requested_bytes }
    }

    /// Bytes that the failed allocation requested, if known.
    pub const fn requested_bytes(&self) -> Option<u64> {
        self.requested_bytes
    }
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.requested_bytes {
            Some(bytes) => write!(f, "out of memory: tried to allocate {bytes} bytes"),
            None => f.write_str("out of memory"),
        }
    }
}

impl Error for OutOfMemory {}
