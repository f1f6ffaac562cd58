//! A folder, a memory whose bytes a test sets, and calls that say which sizes they tried.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use toma::PersistentCache;
use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::device::Ladder;
use toma::memory::{MemorySource, Reading};
use toma::{NoCache, execute};

pub(crate) const GIB: u64 = 1 << 30;

/// A folder of a test's own, gone at its end.
#[derive(Debug)]
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder in memory where the system has one: for tests that write so often that they would
    /// wait for the disk most of the time.
    pub(crate) fn in_memory() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path().join("sizes.json")
    }

    pub(crate) fn cache(&self) -> PersistentCache {
        PersistentCache::at(self.file())
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// The names of what is in the folder, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// How many files were set aside.
    pub(crate) fn aside(&self) -> usize {
        self.names().iter().filter(|name| name.contains("set-aside")).count()
    }
}

/// A memory whose free and total bytes are what the test says.
#[derive(Debug)]
pub(crate) struct Memory {
    name: &'static str,
    free_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Memory {
    pub(crate) fn new(free_gib: u64, total_gib: u64) -> Self {
        Self::named("test:0", free_gib, total_gib)
    }

    pub(crate) fn named(name: &'static str, free_gib: u64, total_gib: u64) -> Self {
        let [free_bytes, total_bytes] = [free_gib, total_gib].map(|gib| AtomicU64::new(gib * GIB));
        Self { name, free_bytes, total_bytes }
    }
}

impl MemorySource for Memory {
    fn name(&self) -> &str {
        self.name
    }

    fn read(&self) -> io::Result<Reading> {
        let [free, total] = [&self.free_bytes, &self.total_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
        if total == 0 { Err(io::Error::other("unreadable")) } else { Ok(Reading::new(free, total)) }
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

/// The sizes that a batch of this name tries which fits up to `limit`, on 80 GiB.
pub(crate) fn batch(cache: &dyn SizeCache, name: &str, initial: usize, limit: usize) -> Vec<usize> {
    batch_on(cache, &Memory::new(40, 80), name, (initial, limit))
}

pub(crate) fn batch_on(
    cache: &dyn SizeCache,
    memory: &Memory,
    name: &str,
    (initial, limit): (usize, usize),
) -> Vec<usize> {
    let mut tried = Vec::new();
    // Within a process the name alone does not tell calls at one line apart.
    let with = execute::with::<NoCache>()
        .cache(cache)
        .device(memory)
        .ladder(Ladder::default().without_waiting())
        .key(name)
        .name(name.to_owned());
    let ended = with.batch(initial, |size| {
        tried.push(size);
        if size > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    assert_eq!(ended.is_ok(), limit > 0, "{ended:?}");
    tried
}

/// The settled sizes of the entries, by name.
pub(crate) fn settled(cache: &PersistentCache) -> Vec<(String, usize)> {
    let entries = cache.entries();
    let mut settled: Vec<_> =
        entries.into_iter().map(|entry| (entry.name, entry.remembered.settled)).collect();
    settled.sort();
    settled
}
