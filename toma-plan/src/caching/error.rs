//! What goes wrong, with its values.

use std::error::Error;
use std::fmt::{self, Display, Formatter};

use super::BlockId;

/// The device has no room for a segment that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The bytes that were asked for.
    pub requested_bytes: u64,
    /// The bytes of blocks in use.
    pub allocated_bytes: u64,
    /// The bytes of segments, none of which could be released.
    pub reserved_bytes: u64,
    /// The bytes that the device has for segments.
    pub capacity_bytes: u64,
}

/// An allocation that cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidFree {
    /// It was freed before.
    FreedTwice(BlockId),
    /// This allocator never made it.
    Unknown(BlockId),
}

/// A value that `max_split_size_mb` cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidSplitSize {
    /// The value, in bytes.
    pub bytes: u64,
}

impl Display for OutOfMemory {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { requested_bytes, allocated_bytes, reserved_bytes, capacity_bytes } = self;
        write!(
            f,
            "no segment for {requested_bytes} bytes: {reserved_bytes} of {capacity_bytes} bytes are reserved, \
             {allocated_bytes} allocated"
        )
    }
}

impl Display for InvalidFree {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::FreedTwice(id) => write!(f, "allocation {} was freed before", id.0),
            Self::Unknown(id) => write!(f, "allocation {} is not of this allocator", id.0),
        }
    }
}

impl Display for InvalidSplitSize {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "max_split_size is {} bytes, which is below 20 MiB or no multiple of 1 MiB", self.bytes)
    }
}

impl Error for OutOfMemory {}
impl Error for InvalidFree {}
impl Error for InvalidSplitSize {}
