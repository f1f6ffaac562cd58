//! How much memory there is: free and total bytes of the host and of devices, and a limit on what this
//! process may use.
//!
//! # Why
//!
//! Free is what this program could allocate, for every [`MemorySource`]. Cached memory belongs to it; which
//! part is cached is the allocator's business.

mod cgroup;
mod host;
mod kernel_file;
mod limit;
mod recent;
mod resident;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::time::Duration;

pub use host::{Host, host};
pub use limit::{CpuMemoryLimit, set_cpu_memory_limit, used_bytes};
pub(crate) use recent::recent;
pub use resident::Resident;

/// How old a reading may be where the engine reads memory on a path that must be fast.
///
/// A reading of the host opens several files and costs tens of microseconds, a remembered one
/// tens of nanoseconds, and the engine asks only to tell much free memory from little.
const STALENESS: Duration = Duration::from_millis(100);

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

    /// What is left when both limits hold.
    fn tighter(self, other: Self) -> Self {
        Self {
            free_bytes: self.free_bytes.min(other.free_bytes),
            total_bytes: self.total_bytes.min(other.total_bytes),
        }
    }
}

/// What a program has allocated from one memory, counted by its allocator at one moment.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in living allocations.
    pub allocated_bytes: u64,
    /// Most allocated bytes at one time since the last [`reset_peak`](MemorySource::reset_peak).
    pub peak_allocated_bytes: u64,
    /// How often an allocation succeeded only after cached memory was released.
    pub num_alloc_retries: u64,
}

impl Usage {
    /// This much allocated now and at most.
    pub const fn new(allocated_bytes: u64, peak_allocated_bytes: u64) -> Self {
        Self { allocated_bytes, peak_allocated_bytes, num_alloc_retries: 0 }
    }

    /// The same after so many retries.
    #[must_use]
    pub const fn retried(self, num_alloc_retries: u64) -> Self {
        Self { num_alloc_retries, ..self }
    }
}

/// A memory that work allocates from: the host, or one device.
///
/// The engine reads it after a failure, to choose among remembered sizes and to judge a
/// transient failure, and asks it to release what its allocator holds back before a retry.
pub trait MemorySource: fmt::Debug + Sync {
    /// A name that tells this memory from others of the program, such as `host`, or the device's own name.
    ///
    /// Sources of one name count as one memory: a remembered reading of the one serves the other.
    fn name(&self) -> &str;

    /// Free and total bytes now. Free is what this program could allocate: cached memory, which its
    /// allocator holds back without using it, belongs to that.
    ///
    /// # Errors
    /// When the memory cannot be read; the message names what could not be read. The engine then
    /// goes on as if nothing were known.
    fn read(&self) -> io::Result<Reading>;

    /// Gives cached memory of the allocator back, so that a retry finds it free.
    fn release_cached_memory(&self) {}

    /// What the program has allocated from this memory; `None` where its allocator does not count.
    ///
    /// Asked twice per attempt by policies that [measure memory](crate::policy::Needs), which can
    /// then tell from small attempts which size will fit.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// Makes what is allocated now the peak.
    fn reset_peak(&self) {}

    /// Bytes that an allocator may use again before [`usage`](Self::usage) grows: 0 where every allocation is counted. A
    /// source around another one has to pass this on.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// How old a remembered reading of this memory may be where the engine must be fast; 100 ms unless told.
    ///
    /// Zero suits a source that is as cheap to read as to remember, or whose figures must be exact.
    fn staleness(&self) -> Duration {
        STALENESS
    }
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

    fn usage(&self) -> Option<Usage> {
        (**self).usage()
    }

    fn reset_peak(&self) {
        (**self).reset_peak();
    }

    fn held_bytes(&self) -> u64 {
        (**self).held_bytes()
    }

    fn staleness(&self) -> Duration {
        (**self).staleness()
    }
}
