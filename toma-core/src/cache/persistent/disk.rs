//! The file itself: read, locked, replaced, set aside.
//!
//! A file is only ever replaced as a whole, by renaming a finished one onto it, so a reader needs no lock
//! and finds either the old or the new one. A writer holds a lock on a file beside it from reading to
//! renaming, so nothing that others learned in between is lost. The kernel drops the lock
//! of a process that is killed; what that process had not finished is overwritten by the next one.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fs4::{FileExt, TryLockError};

use super::history::Book;
use super::text::{self, MAX_BYTES, Unfit};

/// How long to wait for the lock of other processes, which hold it for milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// As many as Linux follows.
const LINKS: usize = 40;

/// Names for files set aside; beyond it the last one is replaced.
const ASIDE: usize = 9;

/// Where a size cache is kept.
#[derive(Debug)]
pub(super) struct Disk {
    path: PathBuf,
}

/// What tells one version of a file from the next without reading it; `None` when there is no file.
pub(super) type Stamp = Option<(SystemTime, u64, u64)>;

/// What a file holds, and where it went when that was none of ours.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) book: Book,
    pub(super) stamp: Stamp,
    /// Why, and as what.
    pub(super) aside: Option<String>,
}

impl Disk {
    /// The path as it is now, whatever folder becomes the current one later.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path: std::path::absolute(&path).unwrap_or(path) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn stamp(&self) -> Stamp {
        stamp(&fs::metadata(&self.path).ok()?)
    }

    /// Reads the file, and sets it aside when it is none of ours.
    pub(super) fn read(&self) -> io::Result<Contents> {
        let stamp = self.stamp();
        match read(&self.path)? {
            Ok(book) => Ok(Contents { book, stamp, aside: None }),
            // A good one may have come since: again, under the lock.
            Err(_) => self.update(|_| None),
        }
    }

    /// Replaces the entries of the file, if `change` says so, while no other process can.
    pub(super) fn update(&self, change: impl FnOnce(&Book) -> Option<Book>) -> io::Result<Contents> {
        // A link to the file stays a link.
        let path = followed(self.path.clone());
        let _lock = lock(&path)?;
        let (book, aside) = match read(&path)? {
            Ok(book) => (book, None),
            Err(why) => {
                let aside = format!("{why}; it is set aside as {}", set_aside(&path)?.display());
                (Book::default(), Some(aside))
            }
        };
        match change(&book) {
            None => Ok(Contents { book, stamp: self.stamp(), aside }),
            Some(mut book) => {
                let stamp = replace(&path, &mut book)?;
                Ok(Contents { book, stamp, aside })
            }
        }
    }
}

/// Where links lead, even if there is no file yet; an endless chain cannot be read either.
fn followed(mut path: PathBuf) -> PathBuf {
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path.pop();
        path.push(target);
    }
    fs::canonicalize(&path).unwrap_or(path)
}

fn stamp(file: &Metadata) -> Stamp {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(file);
    #[cfg(not(unix))]
    let inode = 0;
    Some((file.modified().ok()?, file.len(), inode))
}

/// The entries of the file at `path`, none where there is no file, or why it is none of ours.
fn read(path: &Path) -> io::Result<Result<Book, Unfit>> {
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ok(Book::default())),
        kind => kind?,
    };
    // Reading a pipe would wait for a writer, and a folder is not ours to move away.
    if !kind.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(text::read(&bytes))
}

/// The lock is given back when the file is closed, also by the kernel when the process is killed.
fn lock(path: &Path) -> io::Result<Lock> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(beside(path, ".lock"))?;
    let (begun, mut pause) = (Instant::now(), Duration::from_micros(250));
    loop {
        match FileExt::try_lock(&file) {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                return Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds its lock"));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(8));
    }
}

struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // A child forked meanwhile has the file open, too, and closing ours alone would not unlock it.
        let _ = FileExt::unlock(&self.0);
    }
}

/// Puts `book` in place of the file, whole or not at all.
fn replace(path: &Path, book: &mut Book) -> io::Result<Stamp> {
    let text = text::write(book)?;
    // One name suffices, because only the holder of the lock comes here, and no litter piles up.
    let next = beside(path, ".next");
    let written = write(&next, &text).and_then(|file| fs::rename(&next, path).map(|()| file));
    if written.is_err() {
        let _ = fs::remove_file(&next);
    }
    Ok(stamp(&written?))
}

fn write(path: &Path, text: &str) -> io::Result<Metadata> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    // Otherwise the name may reach the disk before the content, and a power cut in between leaves a file
    // of zeros in place of the old one.
    file.sync_data()?;
    file.metadata()
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = |i| beside(path, &format!(".set-aside-{i}"));
    let to =
        (1..ASIDE).map(name).find(|name| fs::symlink_metadata(name).is_err()).unwrap_or_else(|| name(ASIDE));
    fs::rename(path, &to)?;
    Ok(to)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
