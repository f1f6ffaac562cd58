//! How much memory there is: free and total bytes of the host and of devices.

use std::fmt;
use std::io;

/// Free and total bytes of one memory, read at one moment.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Bytes that could be allocated now.
    pub free_bytes: u64,
    /// Bytes there are in all, under the limits in force.
    pub total_bytes: u64,
}

impl Reading {
    /// A reading of `free_bytes` out of `total_bytes`.
    pub const fn new(free_bytes: u64, total_bytes: u64) -> Self {
        Self { free_bytes, total_bytes }
    }
}

/// A memory that work allocates from: the host, or one device.
///
/// The engine reads it after a failure, to choose among remembered sizes and to judge a
/// transient failure, and asks it to release what its allocator holds back before a retry.
pub trait MemorySource: fmt::Debug + Sync {
    /// A name that tells this memory from others of the program, such as `cuda:0`.
    fn name(&self) -> &str;

    /// Free and total bytes now.
    ///
    /// # Errors
    /// When the memory cannot be read; the message names what could not be read. The engine then
    /// goes on as if nothing were known.
    fn read(&self) -> io::Result<Reading>;

    /// Gives cached memory of the allocator back, so that a retry finds it free.
    fn release_cached_memory(&self) {}
}

impl<M: MemorySource + ?Sized> MemorySource for &M {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn read(&self) -> io::Result<Reading> {
        (**self).read()
    }

    fn release_cached_memory(&self) {
        (**self).release_cached_memory();
    }
}
