//! The cache file: reading, locking and replacing.
//!
//! A file is only ever replaced as a whole, by renaming a finished one onto it, so a reader needs no lock and finds
//! either the old or the new one. A writer holds a lock on a second file from reading to renaming, so nothing that
//! others learned in between is lost. The kernel drops the lock of a process that is killed; the next writer
//! overwrites the unfinished file of that process.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fs4::{FileExt, TryLockError};
use serde::{Deserialize, Serialize};

use super::entry::CallKey;
use super::observation::Observation;

/// Number of attempts to take the lock, with a millisecond between; other processes hold it for milliseconds.
const TRIES: u32 = 2000;

/// Number of entries that a file holds; beyond it those learned longest ago are removed.
const MAX_ENTRIES: usize = 2048;

/// Number of bytes that a file may have; no file of this cache is as large.
const MAX_BYTES: u64 = 16 << 20;

/// Contents of a file or a table.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Contents {
    format: Format,
    /// In the order of learning, the latest last.
    pub(super) entries: Vec<Observation>,
}

/// Distinguishes files of this cache from others, and one version from the next.
#[derive(Debug, Default, Serialize, Deserialize)]
enum Format {
    #[default]
    #[serde(rename = "toma size cache 1")]
    First,
}

impl Contents {
    /// Reads a file; contents are empty if there is none.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            found => found?,
        };
        // Reading a pipe would wait for a writer, and a device has no end.
        if !found.is_file() || found.len() > MAX_BYTES {
            return Err(io::Error::other("it is no regular file of at most 16 MiB"));
        }
        Self::parse(&fs::read(path)?)
    }

    pub(super) fn parse(text: &[u8]) -> io::Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let unfit = |error| format!("it is no size cache that this version reads ({error})");
        serde_json::from_slice(text).map_err(|error| io::Error::other(unfit(error)))
    }

    pub(super) fn find(&self, call: &CallKey) -> Option<&Observation> {
        self.entries.iter().find(|entry| entry.call == *call)
    }

    pub(super) fn find_namesake(&self, call: &CallKey) -> Option<&Observation> {
        self.entries.iter().rfind(|entry| entry.call.is_namesake(call))
    }

    pub(super) fn put(&mut self, new: Observation) {
        self.entries.retain(|entry| entry.call != new.call);
        self.entries.push(new);
        self.entries.drain(..self.entries.len().saturating_sub(MAX_ENTRIES));
    }
}

/// Lets `change` edit the contents of the file, while no other process can change it. Returns the new contents.
pub(super) fn update(path: &Path, change: &dyn Fn(&mut Contents)) -> io::Result<Contents> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let lock = lock(&beside(path, ".lock"))?;
    let updated = Contents::read(path).and_then(|mut contents| {
        change(&mut contents);
        replace(path, &contents).map(|()| contents)
    });
    // A child that is forked meanwhile also has the file open, so closing this handle alone would not unlock it.
    let _ = FileExt::unlock(&lock);
    updated
}

fn lock(path: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    for _ in 0..TRIES {
        match FileExt::try_lock(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
    Err(io::Error::other("another process holds its lock"))
}

/// Replaces the file by `contents`, as a whole or not at all.
fn replace(path: &Path, contents: &Contents) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(contents)?;
    // One name suffices, because only the holder of the lock comes here, and no leftover files pile up.
    let next = beside(path, ".next");
    let mut file = File::create(&next)?;
    file.write_all(&text)?;
    // Without this, the name may reach the disk before the content, and a power cut in between leaves a file of
    // zeros in place of the old one.
    file.sync_data()?;
    fs::rename(next, path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
