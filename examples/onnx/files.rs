//! Input of the model: bytes of the beginning and the end of each file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ndarray::Array2;

/// Number of files of this project that are classified.
const FILES: usize = 96;

/// Bytes of each end.
const END: usize = 1024;

/// Bytes that are read at each end, before spaces are stripped.
const BLOCK: usize = 4096;

/// Value of positions beyond the bytes of a file.
const PADDING: i32 = 256;

pub(crate) fn of_project() -> io::Result<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["docs", "examples", "toma-torch/shim"] {
        walk(&root.join(folder), &mut files)?;
    }
    files.truncate(FILES);
    Ok(files)
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() { walk(&path, files)? } else { files.push(path) }
    }
    Ok(())
}

/// Reads the files into one row each.
pub(crate) fn read(paths: &[PathBuf]) -> io::Result<Array2<i32>> {
    let mut rows = Array2::from_elem((paths.len(), 2 * END), PADDING);
    for (path, mut row) in paths.iter().zip(rows.rows_mut()) {
        let bytes = fs::read(path)?;
        let begin = bytes[..bytes.len().min(BLOCK)].trim_ascii_start();
        let end = bytes[bytes.len().saturating_sub(BLOCK)..].trim_ascii_end();
        for (to, from) in row.iter_mut().take(END).zip(begin) {
            *to = (*from).into();
        }
        for (to, from) in row.iter_mut().rev().take(END).zip(end.iter().rev()) {
            *to = (*from).into();
        }
    }
    Ok(rows)
}
