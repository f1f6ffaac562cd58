//! Folders for tests.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder of one test's own, removed when the test ends.
#[derive(Debug)]
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        Self(TempDir::with_prefix(format!("xtask-{name}-")).unwrap())
    }

    pub(crate) fn root(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Writes a file, with the folders it stands in.
    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}
