//! A body that fits up to a size, a memory whose free bytes a test sets, and calls that say which
//! sizes they tried.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use toma::cache::{Entry, Place, Remembered, SizeCache};
use toma::classify::OutOfMemory;
use toma::device::Ladder;
use toma::memory::{MemorySource, Reading};
use toma::{NoCache, StacktraceMemoryCache, execute};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

const UNREADABLE: u64 = u64::MAX;

/// A memory of 80 GiB whose free bytes are what the test says, at once.
#[derive(Debug)]
pub(crate) struct Memory {
    name: &'static str,
    free_bytes: AtomicU64,
    readings: AtomicU64,
}

/// Tests run side by side on memories of one name, and are to see nothing of each other.
pub(crate) fn apart() -> Ladder<'static> {
    Ladder::default().without_waiting()
}

impl Memory {
    pub(crate) fn new(free_bytes: u64) -> Self {
        Self::named("test:0", free_bytes)
    }

    pub(crate) const fn named(name: &'static str, free_bytes: u64) -> Self {
        Self { name, free_bytes: AtomicU64::new(free_bytes), readings: AtomicU64::new(0) }
    }

    pub(crate) fn has_free(&self, bytes: u64) {
        self.free_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn cannot_be_read(&self) {
        self.has_free(UNREADABLE);
    }

    pub(crate) fn readings(&self) -> u64 {
        self.readings.load(Ordering::Relaxed)
    }
}

impl MemorySource for Memory {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> io::Result<Reading> {
        self.readings.fetch_add(1, Ordering::Relaxed);
        match self.free_bytes.load(Ordering::Relaxed) {
            UNREADABLE => Err(io::Error::other("this memory cannot be read")),
            free_bytes => Ok(Reading::new(free_bytes, 80 * GIB)),
        }
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

/// The default cache, but whatever function the test calls from does not count.
#[derive(Debug, Default)]
pub(crate) struct AnyStack(pub(crate) StacktraceMemoryCache);

impl SizeCache for AnyStack {
    fn shared() -> &'static Self {
        static SHARED: AnyStack = AnyStack(StacktraceMemoryCache::new());
        &SHARED
    }

    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        self.0.recall_by(&place.by_function(), place)
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        self.0.remember_by(&place.by_function(), place, learned);
    }
}

/// Runs out of memory above `limit` items.
pub(crate) fn fits(size: usize, limit: usize) -> Result<(), OutOfMemory> {
    if size <= limit { Ok(()) } else { Err(OutOfMemory::new(None)) }
}

/// The sizes of the attempts of a batch at one line, the last of which worked unless `limit` is 0.
pub(crate) fn batch(cache: &dyn SizeCache, memory: &Memory, initial: usize, limit: usize) -> Vec<usize> {
    let mut tried = Vec::new();
    let with = execute::with::<NoCache>().cache(cache).device(memory).ladder(apart()).name("batch");
    let ended = with.batch(initial, |size| {
        tried.push(size);
        fits(size, limit)
    });
    assert_eq!(ended.is_ok(), limit > 0, "{ended:?}");
    tried
}

/// What is remembered, by size alone.
pub(crate) fn settled(entries: &[Entry]) -> Vec<usize> {
    let mut settled: Vec<_> = entries.iter().map(|entry| entry.remembered.settled).collect();
    settled.sort_unstable();
    settled
}
