//! A size cache that outlives the process.
//!
//! # The file
//!
//! One JSON file, by default `toma/sizes.json` in the platform's folder for caches (on Linux
//! `$XDG_CACHE_HOME` or `~/.cache`), indented and in a fixed order, so that two versions of it can be
//! compared:
//!
//! ```json
//! {
//!   "format": "toma size cache",
//!   "version": 1,
//!   "entries": [
//!     {
//!       "name": "demo::nearest",
//!       "place": "src/main.rs:7:1",
//!       "crate_version": "0.1.0",
//!       "device": "gpu:0",
//!       "total_bytes": 84825604096,
//!       "used": "2026-11-20T08:30:00.000Z",
//!       "evidence": [
//!         {
//!           "learned": "2026-11-19T17:02:11.406Z",
//!           "run": "0x5cf0b8f3c1f4a7d2",
//!           "settled": 750,
//!           "largest_success": 750,
//!           "smallest_failure": 1500,
//!           "free_bytes": 80530636800
//!         }
//!       ]
//!     }
//!   ]
//! }
//! ```
//!
//! | field | what it is |
//! |---|---|
//! | `format`, `version` | what tells the file from others; the version moves when a reader of the old one would misunderstand the new one |
//! | `name` | the `name` option, the path of an annotated function, or `file:line` of an inline form |
//! | `place` | file, line and column of the annotated function or the inline form |
//! | `crate_version` | the version of the crate an annotated function is in |
//! | `program` | the program an inline form is in, because paths of source files are no names of crates |
//! | `key` | a number for the `key` option; left out without one |
//! | `device` | the name of the memory source |
//! | `total_bytes` | its total bytes, rounded down to six binary digits; left out when unknown |
//! | `used` | when a program last started with the entry, in UTC |
//! | `evidence` | what runs have learned, the newest first, at most 8 |
//! | `learned` | when, in UTC |
//! | `run` | a number for the run of a program that learned it |
//! | `settled`, `largest_success`, `smallest_failure` | sizes, as in [`Remembered`] |
//! | `free_bytes` | free bytes of the memory source at that time, if they could be read |
//! | `measured` | what a policy that measures has recorded: a [`Measurements`], its times in microseconds |
//!
//! What stands before `used` is the entry's identity. Unknown fields are not kept when the file is written
//! anew.
//!
//! # The merge rule
//!
//! Entries are merged one by one, and evidence as a set: see [`evidence`]. The file is bounded when it
//! is written, not when it is merged: the entries least recently learned or used go.
//!
//! # Reading and writing
//!
//! The file is read when a thread first looks for a call that this process has learned nothing about,
//! and read again when it has changed by the next such time. It is written when a call has learned
//! something by which another process would start differently, before that call returns, so that the
//! process may end or be killed right after. In between there is no file, only the memo of the other
//! caches. See [`disk`] for how the file is locked and replaced.

mod disk;
mod entry;
mod evidence;
mod hint;
mod history;
mod key;
mod knowledge;
mod marks;
mod stored;
#[cfg(test)]
mod tests;
mod text;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use etcetera::BaseStrategy;

use self::disk::Disk;
pub use self::entry::PersistentEntry;
use self::key::CallKey;
use self::knowledge::Knowledge;
use super::store::Store;
use super::{Place, Remembered, SizeCache};
use crate::policy::Measurements;

/// Remembers across runs, in a file: the second run of a program starts where the first one ended.
///
/// One entry per annotated function, or per line of an inline form, as in
/// [`GlobalCache`](crate::GlobalCache); besides, the crate's version, the device, its total memory and
/// the `key` option tell entries apart. (The name tells entries of the file apart, too; within a process
/// it does not, so calls of several names at one line want a `key`.) The file is read when it is first
/// needed and written when a call has learned something new; a warm call touches no file, and costs what
/// it does with `GlobalCache`. `toma::cache::set_default::<PersistentCache>()` makes it the cache of all
/// calls that name none.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{PersistentCache, classify::OutOfMemory, execute};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("sizes.json");
/// let run = || {
///     let sizes = PersistentCache::at(&path);     // `shared()`, or by type: in the user's cache folder
///     let mut tried = Vec::new();
///     let call = execute::with::<PersistentCache>().cache(&sizes).name("resize");
///     call.batch(256, |size| {
///         tried.push(size);
///         if size > 100 { Err(OutOfMemory::new(None)) } else { Ok(()) }
///     })
///     .map(|()| tried)
/// };
/// assert_eq!(run()?, [256, 128, 64]);
/// assert_eq!(run()?, [64]);                       // as in another process
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # A hint, never a promise
///
/// Another run had other neighbors and other inputs. So a size from the file is used with head-room: at
/// least 1/16 below the smallest size known to fail. On a device with other total memory it is not
/// used. And as always, no call exceeds its `initial` and `max`, and a size that fails shrinks. What this
/// process has learned itself counts as it is.
///
/// # Many processes
///
/// All processes of a machine may share one file, and machines may share it where the file system
/// locks files for all of them. What they learn is merged: an entry holds what each of the last 8 runs
/// learned, newer evidence overriding older where both contradict. A change smaller than the
/// head-room is not worth a write: it waits for the next one, for [`flush`](Self::flush), or for an
/// instance of one's own to be dropped. The file holds 2048 entries, those last learned or used.
///
/// The time of calls that learn nothing is written with whatever is learned next. So a process that
/// learns nothing leaves the next one no more reason to look for memory that has risen unseen.
///
/// # When the file cannot be used
///
/// A file that is corrupt, of a newer version or none of ours is renamed to `….set-aside-1` and so on.
/// A folder that cannot be written, a full disk, a missing home folder: the cache works in memory. In
/// each case one line on standard error says so, and nothing fails.
///
/// The `key` option stands in the file as a hash, which is the same for programs built by the same
/// version of Rust, and may be another one for the next.
#[derive(Debug)]
pub struct PersistentCache {
    store: Store,
    knowledge: Knowledge,
}

impl PersistentCache {
    /// A cache in the file `path`, which need not exist, nor need its folder.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self::on(Some(Disk::at(path.into())))
    }

    fn on(disk: Option<Disk>) -> Self {
        // Even an empty store is asked, because the file may know something.
        Self { store: Store::awake(), knowledge: Knowledge::new(disk) }
    }

    /// Adds a table that comes with the program: what calls start from about which neither the file nor a
    /// [seed](Self::seed) says anything.
    ///
    /// A table is the text of such a file. It is never written. Calls find it by name, key, device and
    /// total memory even where their lines have moved or the version is another. A text that is no table is not
    /// used, and one line on standard error says so.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::PersistentCache;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("sizes.json");
    /// // Usually `include_str!("sizes.json")`.
    /// let table = r#"{ "format": "toma size cache", "version": 1, "entries": [] }"#;
    /// let sizes = PersistentCache::at(&path).with_table(table);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn with_table(self, table: &str) -> Self {
        self.add_table(table);
        self
    }

    /// Adds a table to a cache that is in use, such as the [shared](SizeCache::shared) one: see
    /// [`with_table`](Self::with_table).
    pub fn add_table(&self, table: &str) {
        self.knowledge.add_table(table);
        self.store.changed();
    }

    /// Where the file is, if a folder for it is known.
    pub fn path(&self) -> Option<&Path> {
        self.knowledge.disk().map(Disk::path)
    }

    /// What the file knows now, and what of this process is not written yet.
    pub fn entries(&self) -> Vec<PersistentEntry> {
        let all = self.knowledge.all().histories;
        all.iter().filter_map(|(key, history)| PersistentEntry::new(key, history)).collect()
    }

    /// Forgets everything, in this process and in the file; seeds and tables too.
    pub fn clear(&self) {
        self.knowledge.clear();
        self.store.clear();
    }

    /// Lets calls of this name start at `size` until the file knows or they learn better. Seeds are
    /// kept until [`clear`](Self::clear), in this process alone; `entries` does not list them.
    ///
    /// The name is the `name` option, the path of an annotated function, or `file:line` of an inline
    /// form.
    pub fn seed(&self, name: impl Into<String>, size: usize) {
        self.store.seed(name.into(), size);
    }

    /// Writes what was learned and is not written yet because it differs little.
    pub fn flush(&self) {
        self.knowledge.flush();
    }
}

// Which types a compiler's help lists must not depend on a feature.
#[diagnostic::do_not_recommend]
impl SizeCache for PersistentCache {
    /// The cache in the platform's folder for caches, or in memory alone where there is none.
    fn shared() -> &'static Self {
        static SHARED: LazyLock<PersistentCache> = LazyLock::new(|| {
            let folder = etcetera::base_strategy::choose_native_strategy().ok();
            let path = folder.map(|folder| folder.cache_dir().join("toma").join("sizes.json"));
            PersistentCache::on(path.map(Disk::at))
        });
        &SHARED
    }

    #[inline]
    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        self.store.recall_or(place, || place.by_function(), &|place, seeded| {
            let (key, now) = CallKey::at(place);
            self.knowledge.hint(&key, now, seeded)
        })
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        let here = Remembered { free_bytes: None, ..learned.clone() };
        self.store.remember(&place.by_function(), place, here);
        let (key, _) = CallKey::at(place);
        self.knowledge.learn(&key, &learned);
    }

    fn note(&self, place: &Place<'_>, measurements: &Measurements) {
        self.store.note(place, || place.by_function(), measurements);
    }
}

impl Drop for PersistentCache {
    fn drop(&mut self) {
        self.flush();
    }
}
