//! Shared by many tests: bodies that fit up to a size, scripted memory sources, and outcomes of calls.

#![allow(dead_code, reason = "no program of tests uses all of it")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use toma::classify::OutOfMemory;
use toma::memory::{MemorySource, Reading};

/// Message that is classified as out of memory.
pub(crate) const OUT_OF_MEMORY: &str = "CUDA out of memory. Tried to allocate 2.00 GiB";

/// Succeeds if at most `limit` items are to be done, as if there were memory for no more.
pub(crate) fn fits(items: usize, limit: usize) -> Result<(), OutOfMemory> {
    if items > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

/// Number of attempts of the last call that ran out of memory.
pub(crate) fn failures() -> usize {
    toma::report::last().expect("a call ended on this thread").out_of_memory
}

/// Returns the message of the panic that `run` ends with.
pub(crate) fn panic_of<R>(run: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(run)).err().expect("it panics");
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).expect("the payload is a text")
}

/// A memory source with set figures, which counts how often it is read and how often it releases its cached memory.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) name: &'static str,
    pub(crate) free_bytes: AtomicU64,
    pub(crate) total_bytes: u64,
    pub(crate) is_readable: AtomicBool,
    /// Called before each reading, as `before_releasing` is before each release of cached memory.
    pub(crate) before_reading: fn(),
    pub(crate) before_releasing: fn(),
    pub(crate) readings: AtomicUsize,
    pub(crate) releases: AtomicUsize,
}

impl Memory {
    /// A memory that no other test shares.
    pub(crate) fn new(free_bytes: u64, total_bytes: u64) -> Self {
        static MEMORIES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("memory {}", MEMORIES.fetch_add(1, Relaxed));
        Self::named(name.leak(), free_bytes, total_bytes)
    }

    pub(crate) const fn named(name: &'static str, free_bytes: u64, total_bytes: u64) -> Self {
        Self {
            name,
            free_bytes: AtomicU64::new(free_bytes),
            total_bytes,
            is_readable: AtomicBool::new(true),
            before_reading: || (),
            before_releasing: || (),
            readings: AtomicUsize::new(0),
            releases: AtomicUsize::new(0),
        }
    }

    pub(crate) fn has_free(&self, bytes: u64) {
        self.free_bytes.store(bytes, Relaxed);
        self.is_readable.store(true, Relaxed);
    }

    pub(crate) fn cannot_be_read(&self) {
        self.is_readable.store(false, Relaxed);
    }

    pub(crate) fn readings(&self) -> usize {
        self.readings.load(Relaxed)
    }

    pub(crate) fn releases(&self) -> usize {
        self.releases.load(Relaxed)
    }
}

impl MemorySource for Memory {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> io::Result<Reading> {
        self.readings.fetch_add(1, Relaxed);
        (self.before_reading)();
        if !self.is_readable.load(Relaxed) {
            return Err(io::Error::other("this memory cannot be read"));
        }
        Ok(Reading::new(self.free_bytes.load(Relaxed), self.total_bytes))
    }

    fn release_cached_memory(&self) {
        self.releases.fetch_add(1, Relaxed);
        (self.before_releasing)();
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

#[cfg(feature = "testing")]
pub(crate) mod shown {
    use super::{Duration, MemorySource, Reading, io};

    use toma::memory::Usage;
    use toma::testing::FakeDevice;

    /// The part of its figures that a device reports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Shows {
        /// The device is not even passed to the calls.
        Unnamed,
        Nothing,
        Free,
        Everything,
    }

    /// A device that reports only a part of its figures.
    #[derive(Debug)]
    pub(crate) struct Shown(pub(crate) FakeDevice, pub(crate) Shows);

    impl MemorySource for Shown {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn read(&self) -> io::Result<Reading> {
            match self.1 {
                Shows::Unnamed | Shows::Nothing => Err(io::Error::other("it shows nothing")),
                Shows::Free | Shows::Everything => self.0.read(),
            }
        }

        fn usage(&self) -> Option<Usage> {
            self.0.usage().filter(|_| self.1 == Shows::Everything)
        }

        fn reset_peak(&self) {
            self.0.reset_peak();
        }

        fn staleness(&self) -> Duration {
            Duration::ZERO
        }
    }
}
