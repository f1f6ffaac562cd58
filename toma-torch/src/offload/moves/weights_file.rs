//! A file of weights, and the bytes of one tensor in it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use safetensors::tensor::{Dtype, Metadata};

use crate::error::{Error, ErrorKind};

/// Longest header in bytes; the library that writes headers refuses longer ones, too.
const LONGEST_HEADER: u64 = 100_000_000;

/// An open file that must stay as it was when it was opened.
#[derive(Debug)]
pub(crate) struct WeightsFile {
    path: PathBuf,
    file: Mutex<File>,
    bytes: u64,
    modified: SystemTime,
}

/// Header entry of a tensor.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) part: Part,
}

/// A range of bytes in a file.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    file: Arc<WeightsFile>,
    offset: u64,
    pub(crate) bytes: u64,
}

/// Range of indices of so many bytes in memory.
pub(crate) fn part(offset: u64, bytes: u64) -> Range<usize> {
    let [begin, end] = [offset, offset + bytes].map(|at| usize::try_from(at).expect("it is in memory"));
    begin..end
}

impl Described {
    pub(crate) fn refused(&self, why: &str) -> Error {
        failed(&self.part.file.path, format!("{} {why}", self.name))
    }
}

impl Part {
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Error> {
        self.file.read(self.offset, self.bytes)
    }

    /// Reads so many bytes from each of these offsets to the same offsets of `to`.
    pub(crate) fn read(&self, offsets: &[u64], bytes: u64, to: &mut [u8]) -> Result<(), Error> {
        self.file.check()?;
        for (begin, end) in joined(offsets, bytes) {
            let read = self.file.read_into(self.offset + begin, &mut to[part(begin, end - begin)]);
            read.map_err(|error| failed(&self.file.path, error))?;
        }
        self.file.check()
    }
}

/// Merges the ranges of so many bytes at these offsets, in order, where they overlap or touch. Each row of a transposed
/// table spans almost the whole table.
fn joined(offsets: &[u64], bytes: u64) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for &begin in offsets {
        match all.last_mut() {
            Some((first, end)) if (*first..=*end).contains(&begin) => *end = (*end).max(begin + bytes),
            _ => all.push((begin, begin + bytes)),
        }
    }
    all
}

fn failed(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Other, format!("weights {}: {why}", path.display()))
}

impl WeightsFile {
    /// Opens a file and returns its tensors in the order of their bytes.
    pub(crate) fn open(path: &Path) -> Result<Vec<Described>, Error> {
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        let (about, file) = opened.map_err(|error| failed(path, error))?;
        if !about.is_file() {
            return Err(failed(path, "not a file"));
        }
        let modified = about.modified().map_err(|error| failed(path, error))?;
        let opened = Self { path: path.to_owned(), file: Mutex::new(file), bytes: about.len(), modified };
        Arc::new(opened).described()
    }

    fn described(self: Arc<Self>) -> Result<Vec<Described>, Error> {
        let malformed = |why: &dyn std::fmt::Display| failed(&self.path, format!("not safetensors: {why}"));
        if self.bytes < 8 {
            return Err(malformed(&format!("{} bytes are no header", self.bytes)));
        }
        let length = self.read(0, 8)?;
        let length = u64::from_le_bytes(length.try_into().expect("as many were read"));
        if length > LONGEST_HEADER.min(self.bytes - 8) {
            return Err(malformed(&format!("a header of {length} bytes in a file of {}", self.bytes)));
        }
        let header: Metadata =
            serde_json::from_slice(&self.read(8, length)?).map_err(|error| malformed(&error))?;
        let mut described = Vec::new();
        for (name, info) in header.tensors() {
            let (offset, bytes) =
                self.place(8 + length, info.data_offsets, &info.shape, info.dtype).ok_or_else(|| {
                    malformed(&format!(
                        "{name} is {:?} of {:?} in {:?}",
                        info.dtype, info.shape, info.data_offsets
                    ))
                })?;
            let part = Part { file: Arc::clone(&self), offset, bytes };
            described.push(Described { name, dtype: info.dtype, shape: info.shape.clone(), part });
        }
        described.sort_by(|one, other| (one.part.offset, &one.name).cmp(&(other.part.offset, &other.name)));
        Ok(described)
    }

    /// Returns the offset and length of a tensor in the file; `None` if they contradict its shape or the file's length.
    fn place(
        &self,
        begin: u64,
        (from, to): (usize, usize),
        shape: &[usize],
        dtype: Dtype,
    ) -> Option<(u64, u64)> {
        let elements = shape.iter().try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        let bytes = elements.checked_mul(dtype.size())?;
        let offset = begin.checked_add(u64::try_from(from).ok()?)?;
        let end = offset.checked_add(u64::try_from(bytes).ok()?)?;
        (to.checked_sub(from) == Some(bytes) && end <= self.bytes).then_some((offset, bytes as u64))
    }

    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        self.check()?;
        let size = usize::try_from(bytes).ok();
        let mut read = Vec::new();
        size.and_then(|size| read.try_reserve_exact(size).ok()).ok_or_else(|| {
            let message =
                format!("host out of memory: tried to read {bytes} bytes of {}", self.path.display());
            Error::new(ErrorKind::OutOfMemory, message)
        })?;
        let got = self.read_to(offset, bytes, &mut read).map_err(|error| failed(&self.path, error))?;
        // The file may have changed during the read.
        self.check()?;
        if got < bytes {
            return Err(failed(&self.path, format!("ends after {got} of {bytes} bytes at {offset}")));
        }
        Ok(read)
    }

    fn read_to(&self, offset: u64, bytes: u64, to: &mut Vec<u8>) -> io::Result<u64> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.by_ref().take(bytes).read_to_end(to).map(|read| read as u64)
    }

    fn read_into(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(to)
    }

    /// Checks that the open file is unchanged. Another file put in its place has no effect.
    fn check(&self) -> Result<(), Error> {
        let about = self.file.lock().unwrap_or_else(PoisonError::into_inner).metadata();
        let about = about.and_then(|about| Ok((about.len(), about.modified()?)));
        let (bytes, modified) = about.map_err(|error| failed(&self.path, error))?;
        if bytes != self.bytes {
            let why = format!("has {bytes} bytes, and had {} when it was opened", self.bytes);
            return Err(failed(&self.path, why));
        }
        if modified != self.modified {
            return Err(failed(&self.path, "was written to after it was opened"));
        }
        Ok(())
    }
}

/// Writes a file next to `path`, and moves it to `path` when it is complete.
pub(crate) fn write_whole(path: &Path, write: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    // Threads that write to one path at once write to files of their own, and the last one stays.
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}-{number}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    let written =
        write(&partial).and_then(|()| fs::rename(&partial, path).map_err(|error| failed(path, error)));
    if written.is_err() {
        // The file may not exist.
        let _removed = fs::remove_file(&partial);
    }
    written
}

pub(crate) fn write(path: &Path, views: HashMap<String, impl safetensors::View>) -> Result<(), Error> {
    safetensors::serialize_to_file(views, &None, path).map_err(|error| failed(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_overlap_or_touch_are_read_once() {
        assert_eq!(joined(&[], 4), []);
        assert_eq!(joined(&[0, 8, 12, 20], 4), [(0, 4), (8, 16), (20, 24)]);
        assert_eq!(joined(&[0, 4, 8], 100), [(0, 108)]);
        assert_eq!(joined(&[8, 0], 4), [(8, 12), (0, 4)]);
    }
}
