//! Small files of the kernel: reading, parsing, and naming them in errors.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The text of one file, with the data that errors about the file need.
pub(super) struct KernelFile<'a> {
    path: &'a Path,
    expected: &'static str,
    text: Cow<'a, str>,
}

/// A file that cannot be read, or has other content than expected; `cause` holds the details.
#[derive(Debug)]
struct Unusable {
    path: PathBuf,
    expected: &'static str,
    cause: Box<dyn Error + Send + Sync>,
}

impl<'a> KernelFile<'a> {
    /// Reads the file at `path` into `buffer`, which is reused so that later readings allocate nothing; `None` if
    /// there is no such file.
    pub(super) fn read(
        path: &'a Path,
        expected: &'static str,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Option<Self>> {
        buffer.clear();
        match File::open(path).and_then(|mut file| file.read_to_end(buffer)) {
            // Paths of other programs' mounts may hold any bytes, which must not make the file unusable.
            Ok(_) => Ok(Some(Self { path, expected, text: String::from_utf8_lossy(buffer) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unusable(path, expected, error.kind(), error.into())),
        }
    }

    /// Reads a file that has to exist.
    pub(super) fn must_read(
        path: &'a Path,
        expected: &'static str,
        buffer: &'a mut Vec<u8>,
    ) -> io::Result<Self> {
        Self::read(path, expected, buffer)?.ok_or_else(|| {
            let kind = io::ErrorKind::NotFound;
            unusable(path, expected, kind, io::Error::from(kind).into())
        })
    }

    /// Returns the whole text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Parses each line.
    pub(super) fn parse_lines<'l, T>(&'l self, parse: impl Fn(&'l str) -> Option<T>) -> io::Result<Vec<T>> {
        self.text.lines().map(|line| parse(line).ok_or_else(|| self.malformed(line))).collect()
    }

    /// Returns the number in the line that begins with `key`.
    pub(super) fn value_of(&self, key: &str) -> io::Result<u64> {
        let values = self.text.lines().filter_map(|line| line.strip_prefix(key));
        // One key may begin another, as `inactive_file` may begin `inactive_file_huge`.
        let mut words = values.filter(|value| value.starts_with([':', ' ']));
        self.number(words.next().and_then(|value| value.trim_start_matches(':').split_whitespace().next()))
    }

    /// Returns the number that is the first word of the file.
    pub(super) fn first_number(&self) -> io::Result<u64> {
        self.number(self.text.split_whitespace().next())
    }

    fn number(&self, word: Option<&str>) -> io::Result<u64> {
        word.and_then(|word| word.parse().ok()).ok_or_else(|| self.malformed(self.text.trim()))
    }

    /// Returns the error for unexpected content.
    fn malformed(&self, found: &str) -> io::Error {
        let excerpt: String = found.lines().next().unwrap_or_default().chars().take(80).collect();
        let cause = format!("found {excerpt:?}").into();
        unusable(self.path, self.expected, io::ErrorKind::InvalidData, cause)
    }
}

/// Reads the bytes of address space in use, from a file such as `/proc/self/status`.
pub(super) fn address_space_bytes(status: &Path, buffer: &mut Vec<u8>) -> io::Result<u64> {
    let expected = "a line `VmSize:` with a number of kB";
    Ok(KernelFile::must_read(status, expected, buffer)?.value_of("VmSize")?.saturating_mul(1024))
}

fn unusable(
    path: &Path,
    expected: &'static str,
    kind: io::ErrorKind,
    cause: Box<dyn Error + Send + Sync>,
) -> io::Error {
    io::Error::new(kind, Unusable { path: path.to_owned(), expected, cause })
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot use {}: expected {}", self.path.display(), self.expected)
    }
}

impl Error for Unusable {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}
