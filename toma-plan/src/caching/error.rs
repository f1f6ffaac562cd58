//! What goes wrong, with its values.

use thiserror::Error;

use super::BlockId;

/// The device has no room for the segment that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "no segment for {requested_bytes} bytes: {reserved_bytes} of {capacity_bytes} bytes are reserved, \
     {allocated_bytes} allocated"
)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The bytes that were asked for.
    pub requested_bytes: u64,
    /// The bytes of blocks in use.
    pub allocated_bytes: u64,
    /// The bytes of segments: after a release, those that are partly in use.
    pub reserved_bytes: u64,
    /// The bytes that the device has for segments.
    pub capacity_bytes: u64,
}

/// An allocation that cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidFree {
    /// It was freed before.
    #[error("allocation {} was freed before", .0.0)]
    FreedTwice(BlockId),
    /// This allocator never made it.
    #[error("allocation {} is not of this allocator", .0.0)]
    Unknown(BlockId),
}

/// A value that the option `max_split_size_mb` cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("max_split_size of {bytes} bytes is below 20 MiB or no multiple of 1 MiB")]
#[non_exhaustive]
pub struct InvalidSplitSize {
    /// The value, in bytes.
    pub bytes: u64,
}
