//! Errors of the caching allocator, with their values.

use thiserror::Error;

use super::BlockId;

/// The device has no room for the segment that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "no segment for {requested_bytes} bytes: {reserved_bytes} of {capacity_bytes} bytes are reserved, \
     {allocated_bytes} allocated"
)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The requested bytes.
    pub requested_bytes: u64,
    /// Bytes of blocks in use.
    pub allocated_bytes: u64,
    /// Bytes of segments. After a release, only segments that are partly in use remain.
    pub reserved_bytes: u64,
    /// Bytes that the device has for segments.
    pub capacity_bytes: u64,
}

/// An allocation that cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidFree {
    /// The allocation was already freed.
    #[error("allocation {} was freed before", .0.0)]
    FreedTwice(BlockId),
    /// This allocator never made the allocation.
    #[error("allocation {} is not of this allocator", .0.0)]
    Unknown(BlockId),
}
