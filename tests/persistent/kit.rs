//! A folder with a file of sizes, child processes, and calls that return the sizes they tried.

use std::env;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::{NoCache, PersistentCache, execute};

use crate::child;

/// Returns, in a child of a test, the order that the parent passed to it.
pub(crate) fn order() -> Option<String> {
    env::var("TOMA_TEST_ORDER").ok()
}

/// A folder for one test: in memory where the system has a folder there, because tests write often.
#[derive(Debug)]
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap())
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.join("sizes.json")
    }

    pub(crate) fn cache(&self) -> PersistentCache {
        PersistentCache::at(self.file())
    }

    pub(crate) fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap_or_default()
    }

    /// Returns the settled sizes in the file, by name.
    pub(crate) fn settled(&self) -> Vec<(String, usize)> {
        let entries = self.cache().entries().into_iter();
        let mut settled: Vec<_> = entries.map(|entry| (entry.name, entry.remembered.settled)).collect();
        settled.sort();
        settled
    }

    /// Returns the environment of a child that receives `order` and whose home is this folder.
    pub(crate) fn settings<'a>(&'a self, order: &'a str) -> [(&'static str, &'a str); 3] {
        let home = self.0.path().to_str().unwrap();
        [("TOMA_TEST_ORDER", order), ("HOME", home), ("XDG_CACHE_HOME", home)]
    }

    /// Runs the test of this name in a child, and returns its lines on standard error.
    pub(crate) fn child(&self, test: &str, order: &str) -> Vec<String> {
        child::run(test, &self.settings(order)).unwrap().passed()
    }
}

/// Returns the sizes tried by a batch of this name, of which sizes up to `limit` fit.
pub(crate) fn batch(cache: &dyn SizeCache, name: &str, initial: usize, limit: usize) -> Vec<usize> {
    let mut tried = Vec::new();
    // Within a process the name alone does not distinguish calls at one line.
    let with = execute::with::<NoCache>().cache(cache).key(name).name(name.to_owned());
    let ended = with.batch(initial, |size| {
        tried.push(size);
        if size > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    assert_eq!(ended.is_ok(), limit > 0, "{ended:?}");
    tried
}
