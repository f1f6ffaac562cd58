//! A size cache that outlives the process.
//!
//! # The file
//!
//! One JSON file, by default `toma/sizes.json` in the platform's folder for caches (on Linux
//! `$XDG_CACHE_HOME` or `~/.cache`). It has one entry per [call](entry::CallKey), with the
//! [observation](observation::Observation) that was made last:
//!
//! ```json
//! {
//!   "format": "toma size cache 1",
//!   "entries": [
//!     {
//!       "call": {
//!         "name": "demo::nearest",
//!         "place": "src/main.rs:7:1",
//!         "crate_version": "0.1.0",
//!         "program": null,
//!         "key": 0,
//!         "device": "gpu:0",
//!         "total_bytes": 84825604096
//!       },
//!       "learned": { "secs_since_epoch": 1763571731, "nanos_since_epoch": 0 },
//!       "settled": 750,
//!       "largest_success": 750,
//!       "smallest_failure": 1500,
//!       "failure_available_bytes": null,
//!       "samples": []
//!     }
//!   ]
//! }
//! ```
//!
//! The last two fields hold the measurements of sizes, if the policy measures. Entries stand in the order of
//! learning, and the first are removed when there are too many.
//!
//! # Reading and writing
//!
//! The file is read once, when a thread first looks for a call that this process has learned nothing about. When a
//! call has learned a size, the file is read again, changed and replaced before that call returns, so the process
//! may end or be killed right after. See [`file`](mod@file) for locking and replacing. A process changes only the
//! entry of the call that has learned, so entries that another process has cleared stay cleared.
//!
//! # Why
//!
//! Only the newest observation of a call is kept, for all levels of free memory. If it is wrong, an attempt fails,
//! and the size that works replaces it.
//!
//! A file that cannot be read is left unchanged. It may be a mistyped path, or the file of a newer version, and
//! then two programs would replace each other's file in turn.

mod entry;
mod file;
mod observation;

use std::fs;
use std::io;
use std::mem;
use std::path::{self, Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use etcetera::BaseStrategy;

pub use self::entry::PersistentEntry;

use self::entry::CallKey;
use self::file::Contents;
use self::observation::Observation;
use super::store::Store;
use super::{Place, Remembered, SizeCache};
use crate::policy::Measurements;
use crate::text::print;

/// Remembers across runs, in a file: the second run of a program starts where the first one ended.
///
/// It has one entry per annotated function, or per line of an inline form, as [`GlobalCache`](crate::GlobalCache)
/// has; in addition, the crate's version, the device, its total memory and the `key` option distinguish entries.
/// (The name distinguishes entries of the file, too, but not within a process, so calls of several names at one
/// line need a `key`.) The file is read when it is first needed, and written when a call has learned a size; a warm
/// call touches no file, and costs as much as with `GlobalCache`. `toma::cache::set_default::<PersistentCache>()`
/// makes it the cache of all calls that name none.
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
/// Another run had other work next to it and other inputs. A size from the file that does not fit fails and shrinks
/// like any other, and the size that works replaces it in the file. On a device with other total memory it is not
/// used. No call ever exceeds its `initial` and `max`.
///
/// # Many processes
///
/// All processes of a machine may share one file, and so may several machines if the file system locks files for
/// all of them. The file holds the latest evidence of each call, learned by any process, for the 2048 calls that
/// learned last.
///
/// # When the file cannot be used
///
/// A file that is damaged, of another version or of another program stays as it is. If the file or its folder
/// cannot be used, the disk is full, or there is no home folder, the cache works in memory, one line on standard
/// error reports the problem, and nothing fails.
///
/// The `key` option is stored as a hash, which is the same for programs built by the same version of Rust, and may
/// differ for the next version.
#[derive(Debug)]
pub struct PersistentCache {
    store: Store,
    /// `None` if no folder for caches is known.
    path: Option<PathBuf>,
    known: Mutex<Cached>,
}

#[derive(Debug, Default)]
struct Cached {
    /// The file as it was last read or written; if writing fails, also the entries learned since then.
    file: Contents,
    is_read: bool,
    table: Contents,
    has_complained: bool,
}

impl PersistentCache {
    /// A cache in the file `path`. Neither the file nor its folder need exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        // A link to the file stays a link, and a later change of the current folder has no effect.
        let whole = fs::canonicalize(&path).or_else(|_| path::absolute(&path));
        Self::on(Some(whole.unwrap_or(path)))
    }

    fn on(path: Option<PathBuf>) -> Self {
        // Even an empty store is asked, because the file may have an entry.
        Self { store: Store::awake(), path, known: Mutex::default() }
    }

    /// Adds a table that comes with the program: initial sizes for calls about which neither the file nor a
    /// [seed](Self::seed) has an entry.
    ///
    /// A table is the text of such a file. It is never written. Calls find their entry by name, key, device and
    /// total memory, even if their lines have moved or the version differs. A text that is not a table is not used,
    /// and one line on standard error reports it.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::PersistentCache;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("sizes.json");
    /// // Usually `include_str!("sizes.json")`.
    /// let table = r#"{ "format": "toma size cache 1", "entries": [] }"#;
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
        match Contents::parse(table.as_bytes()) {
            Ok(table) => self.known().table.entries.extend(table.entries),
            Err(error) => print(&format!("toma: a size table is not used: {error}")),
        }
        self.store.changed();
    }

    /// Returns the path of the file, if a folder for it is known.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the entries of the file when this process last read or wrote it, in the order of learning.
    pub fn entries(&self) -> Vec<PersistentEntry> {
        let entry = |entry: &Observation| PersistentEntry::new(&entry.call, entry.remembered());
        self.known().file.entries.iter().map(entry).collect()
    }

    /// Forgets everything, in this process and in the file, including seeds and tables.
    pub fn clear(&self) {
        let mut known = self.known();
        known.table = Contents::default();
        self.change(&mut known, &|file| *file = Contents::default());
        drop(known);
        self.store.clear();
    }

    /// Lets calls of this name start at `size` until the file has an entry or they learn a size. Seeds are kept
    /// until [`clear`](Self::clear), in this process alone; `entries` does not list them.
    ///
    /// The name is the `name` option, the path of an annotated function, or `file:line` of an inline
    /// form.
    pub fn seed(&self, name: impl Into<String>, size: usize) {
        self.store.seed(name.into(), size);
    }

    /// Returns the evidence that a call may start from: the file's, or else `seeded`, or else the table's.
    fn hint(&self, call: &CallKey, seeded: Option<Remembered>) -> Option<Remembered> {
        let known = self.known();
        let of_file = known.file.find(call).map(Observation::remembered);
        of_file.or(seeded).or_else(|| known.table.find_namesake(call).map(Observation::remembered))
    }

    /// Changes the file, or the copy in memory if that fails.
    fn change(&self, known: &mut Cached, change: &dyn Fn(&mut Contents)) {
        if !self.take(known, |path| file::update(path, change)) {
            change(&mut known.file);
        }
    }

    /// Returns the state, after reading the file if necessary. No user code runs under the lock.
    fn known(&self) -> MutexGuard<'_, Cached> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !mem::replace(&mut known.is_read, true) {
            self.take(&mut known, Contents::read);
        }
        known
    }

    /// Takes over the contents that `access` returns, or reports once why it failed. True on success.
    fn take(&self, known: &mut Cached, access: impl FnOnce(&Path) -> io::Result<Contents>) -> bool {
        let nowhere = || io::Error::other("no folder for caches is known, is HOME set?");
        match self.path().ok_or_else(nowhere).and_then(access) {
            Ok(contents) => {
                known.file = contents;
                true
            }
            Err(error) => {
                if !mem::replace(&mut known.has_complained, true) {
                    let path = self.path().map(|path| format!(" {}", path.display())).unwrap_or_default();
                    let until = "sizes are remembered in memory only until that is repaired";
                    print(&format!("toma: size cache{path}: {error}; {until}"));
                }
                false
            }
        }
    }
}

// A compiler's help must not list other types when a feature is on.
#[diagnostic::do_not_recommend]
impl SizeCache for PersistentCache {
    /// Returns the cache in the platform's folder for caches, or one in memory alone if there is no such folder.
    fn shared() -> &'static Self {
        static SHARED: LazyLock<PersistentCache> = LazyLock::new(|| {
            let folder = etcetera::base_strategy::choose_native_strategy().ok();
            PersistentCache::on(folder.map(|folder| folder.cache_dir().join("toma").join("sizes.json")))
        });
        &SHARED
    }

    #[inline]
    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        let elsewhere = |place: &Place<'_>, seeded| self.hint(&CallKey::at(place), seeded);
        self.store.recall_or(place, || place.by_function(), &elsewhere)
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        // One entry per function, for all levels of free memory.
        let learned = Remembered { free_bytes: None, ..learned };
        let new = Observation::new(CallKey::at(place), &learned);
        self.store.remember(&place.by_function(), place, learned);
        self.change(&mut self.known(), &|file| file.put(new.clone()));
    }

    fn note(&self, place: &Place<'_>, measurements: &Measurements) {
        self.store.note(place, || place.by_function(), measurements);
    }
}
