//! Memory of the host and of devices: free and total bytes, and a limit for this process.
//!
//! # Why
//!
//! For every [`MemorySource`], free bytes are those that this program could allocate. They include cached memory,
//! because only the allocator knows which part is cached.

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

pub use host::Host;
pub use limit::{CpuMemoryLimit, set_cpu_memory_limit, used_bytes};
pub(crate) use recent::recent;
pub use resident::Resident;

/// Age that a reading may have where the engine reads memory on a path that must be fast.
///
/// A reading of the host opens several files and costs tens of microseconds, a remembered one tens of nanoseconds,
/// and the engine reads only to distinguish much free memory from little.
const STALENESS: Duration = Duration::from_millis(100);

/// Free and total bytes of one memory, read at one moment.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::memory::{Host, MemorySource as _};
///
/// if let Ok(memory) = Host::shared().read() {
///     println!("{} of {} bytes are free", memory.free_bytes, memory.total_bytes);
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Bytes that could be allocated now.
    pub free_bytes: u64,
    /// Bytes in total, under the current limits.
    pub total_bytes: u64,
}

impl Reading {
    /// A reading of `free_bytes` out of `total_bytes`.
    pub const fn new(free_bytes: u64, total_bytes: u64) -> Self {
        Self { free_bytes, total_bytes }
    }

    /// Combines two limits that both apply.
    fn tighter(self, other: Self) -> Self {
        Self {
            free_bytes: self.free_bytes.min(other.free_bytes),
            total_bytes: self.total_bytes.min(other.total_bytes),
        }
    }
}

/// Allocations of a program from one memory, counted by its allocator at one moment.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::memory::Usage;
///
/// /// The counters of an allocator.
/// fn usage(allocated: u64, peak: u64, retries: u64) -> Usage {
///     Usage::new(allocated, peak).retried(retries)
/// }
/// assert_eq!(usage(100, 200, 1).peak_allocated_bytes, 200);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes in live allocations.
    pub allocated_bytes: u64,
    /// Highest allocated bytes since the last [`reset_peak`](MemorySource::reset_peak).
    pub peak_allocated_bytes: u64,
    /// Number of allocations that succeeded only after cached memory was released.
    pub num_alloc_retries: u64,
}

impl Usage {
    /// A usage with these bytes allocated now and at the peak.
    pub const fn new(allocated_bytes: u64, peak_allocated_bytes: u64) -> Self {
        Self { allocated_bytes, peak_allocated_bytes, num_alloc_retries: 0 }
    }

    /// Sets the number of retries.
    #[must_use]
    pub const fn retried(self, num_alloc_retries: u64) -> Self {
        Self { num_alloc_retries, ..self }
    }
}

/// A memory that work allocates from: the host, or one device.
///
/// The engine reads it after a failure, to choose among remembered sizes and to judge a transient failure, and asks
/// it to release cached memory before a retry.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use toma::memory::{MemorySource, Reading};
/// use toma::{NoCache, execute};
///
/// /// Slots of a pool, a megabyte each.
/// #[derive(Debug)]
/// struct Pool {
///     free: AtomicU64,
///     total: u64,
/// }
///
/// impl MemorySource for Pool {
///     fn name(&self) -> &str {
///         "pool:0"
///     }
///
///     fn read(&self) -> std::io::Result<Reading> {
///         Ok(Reading::new(self.free.load(Relaxed) << 20, self.total << 20))
///     }
/// }
///
/// let pool = Pool { free: AtomicU64::new(8), total: 8 };
/// execute::with::<NoCache>().device(&pool).range(0..100, 10, |_, _| ());
/// ```
pub trait MemorySource: fmt::Debug + Sync {
    /// Returns a name that distinguishes this memory from others of the program, such as `host`, or the device's
    /// name.
    ///
    /// Sources of one name count as one memory: a remembered reading of one serves the other.
    fn name(&self) -> &str;

    /// Reads free and total bytes. Free bytes are those that this program could allocate, including cached memory,
    /// which its allocator holds back without using it.
    ///
    /// # Errors
    /// If the memory cannot be read; the message names the cause. The engine then goes on without a reading.
    fn read(&self) -> io::Result<Reading>;

    /// Gives cached memory of the allocator back, so that it is free for a retry.
    fn release_cached_memory(&self) {}

    /// Returns the bytes that the program has allocated from this memory; `None` if its allocator does not count.
    ///
    /// Called twice per attempt by policies that [measure memory](crate::policy::Needs), which can then predict
    /// from small attempts which size will fit.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// Sets the peak to the currently allocated bytes.
    fn reset_peak(&self) {}

    /// Bytes that an allocator may use again before [`usage`](Self::usage) grows: 0 if every allocation is counted.
    /// A source that wraps another one has to pass this on.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// Returns the age that a remembered reading of this memory may have where the engine must be fast; 100 ms by
    /// default.
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
