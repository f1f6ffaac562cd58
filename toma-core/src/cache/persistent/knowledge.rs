//! What a cache knows: its file as last read, what it has learned since, and the table it was given.
//!
//! # Why
//!
//! What is learned is written and synced before the call returns. A process may be killed right after, and
//! Rust has no reliable hook at exit. Changes below the head-room wait for the next write.
//!
//! A process adds only what it has learned itself. So what another process has cleared stays cleared.
//!
//! The time of warm calls is not written until something is learned. Writing it would put a lock, a file
//! and a sync into warm calls. A new process therefore looks for a rise as late as one that has just
//! learned.

use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::disk::{Contents, Disk, Stamp};
use super::evidence::Observation;
use super::hint::is_news;
use super::history::{Book, CallRecord, MAX_ENTRIES};
use super::key::CallKey;
use super::marks::Moment;
use super::text;
use crate::cache::Remembered;
use crate::memory::Reading;
use crate::text::print;

/// How long a file is left alone whose lock could not be had: waiting for it again would take long.
const LEFT_ALONE: Duration = Duration::from_secs(30);

/// The file of a cache, and what is in memory of it.
#[derive(Debug)]
pub(super) struct Knowledge {
    /// `None` where no folder for caches is known.
    disk: Option<Disk>,
    sources: Mutex<Sources>,
}

#[derive(Debug, Default)]
struct Sources {
    /// The file as it was last read or written.
    file: Book,
    stamp: Stamp,
    is_read: bool,
    /// What this process has learned and not yet written.
    fresh: Book,
    table: Book,
    has_said: Said,
    locked_at: Option<Instant>,
}

/// What was said on standard error, and will not be said again.
#[derive(Debug, Default)]
struct Said {
    aside: OnceLock<()>,
    trouble: OnceLock<()>,
    table: OnceLock<()>,
}

impl Knowledge {
    pub(super) fn new(disk: Option<Disk>) -> Self {
        Self { disk, sources: Mutex::default() }
    }

    pub(super) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Where a call may start: what the file knows, or else what was `seeded`, or else the table.
    pub(super) fn hint(
        &self,
        key: &CallKey,
        now: Option<Reading>,
        seeded: Option<Remembered>,
    ) -> Option<Remembered> {
        let free = now.map(|now| now.free_bytes);
        let mut sources = self.up_to_date();
        match sources.known_of(key).hint(free) {
            Some(hint) => {
                self.use_now(&mut sources, key);
                Some(hint)
            }
            None => seeded.or_else(|| sources.table.hint_by_name(key, free)),
        }
    }

    /// Notes that the call was used, which is written with whatever is learned next. When so much is
    /// known that something will have to go, it is written at once, though not twice a day.
    fn use_now(&self, sources: &mut Sources, key: &CallKey) {
        let now = Moment::now();
        let last = sources.file.histories.get(key).map(CallRecord::last);
        sources.fresh.touch(key, now);
        let is_due = last.is_some_and(|last| now.since(last) > Moment::DAY);
        if is_due && sources.file.histories.len() > MAX_ENTRIES / 2 {
            self.write(sources);
        }
    }

    /// Takes note of what a call has learned, and writes it unless the file says about the same.
    pub(super) fn learn(&self, key: &CallKey, learned: &Remembered) {
        let mut sources = self.up_to_date();
        // The clock may have gone back, or be behind that of another machine: what is learned later is
        // the newer evidence all the same.
        let newest = sources.known_of(key).evidence.newest();
        let at = Moment::at(learned.learned).max(newest.map_or(Moment::default(), Moment::next));
        sources.fresh.learn(key, Observation::new(learned, at));
        if sources.has_news(key, learned.free_bytes, at) {
            self.write(&mut sources);
        }
    }

    /// Writes what is not written yet.
    pub(super) fn flush(&self) {
        let mut sources = self.sources();
        if sources.fresh.histories.values().any(|history| !history.evidence.is_empty()) {
            sources.locked_at = None;
            self.write(&mut sources);
        }
    }

    pub(super) fn clear(&self) {
        let mut sources = self.sources();
        (sources.fresh, sources.table, sources.file) = Default::default();
        if let Some(disk) = self.disk.as_ref().filter(|disk| disk.stamp().is_some()) {
            let cleared = disk.update(|_| Some(Book::default()));
            self.take(&mut sources, cleared);
        }
    }

    /// Everything but the table.
    pub(super) fn all(&self) -> Book {
        let sources = self.up_to_date();
        let mut all = sources.file.clone();
        all.merge(&sources.fresh);
        all.keep_newest(usize::MAX);
        all
    }

    pub(super) fn add_table(&self, table: &str) {
        let mut sources = self.sources();
        match text::read(table.as_bytes()) {
            Ok(table) => sources.table.merge(&table),
            Err(why) => {
                let line = format!("toma: a size table {why}; it is not used");
                sources.has_said.table.get_or_init(|| print(&line));
            }
        }
    }

    /// All sources after the file was read, if it is new to us.
    fn up_to_date(&self) -> MutexGuard<'_, Sources> {
        let mut sources = self.sources();
        if let Some(disk) = &self.disk {
            let is_new = !sources.is_read || disk.stamp() != sources.stamp;
            if is_new && !sources.is_left_alone() {
                let contents = disk.read();
                self.take(&mut sources, contents);
            }
        }
        sources
    }

    fn write(&self, sources: &mut Sources) {
        if sources.is_left_alone() {
            return;
        }
        let written = match &self.disk {
            None => Err(io::Error::other("no folder for caches is known, is HOME set?")),
            Some(disk) => disk.update(|file| {
                let mut all = file.clone();
                all.merge(&sources.fresh);
                Some(all)
            }),
        };
        if self.take(sources, written) {
            sources.fresh = Book::default();
        } else {
            // What cannot be written must not fill the memory instead.
            sources.fresh.keep_newest(MAX_ENTRIES);
        }
    }

    /// Takes over what is in the file now, or says why it could not be had.
    fn take(&self, sources: &mut Sources, contents: io::Result<Contents>) -> bool {
        sources.is_read = true;
        let path = self.disk.as_ref().map_or_else(String::new, |disk| format!(" {}", disk.path().display()));
        match contents {
            Ok(Contents { book, stamp, aside }) => {
                (sources.file, sources.stamp) = (book, stamp);
                if let Some(aside) = aside {
                    let line = format!("toma: size cache{path} {aside}");
                    sources.has_said.aside.get_or_init(|| print(&line));
                }
                true
            }
            Err(error) => {
                sources.stamp = self.disk.as_ref().and_then(Disk::stamp);
                sources.locked_at =
                    Some(Instant::now()).filter(|_| error.kind() == io::ErrorKind::WouldBlock);
                let line = format!("toma: size cache{path}: {error}; sizes are remembered in memory only");
                sources.has_said.trouble.get_or_init(|| print(&line));
                false
            }
        }
    }

    /// No user code runs under the lock, and nothing is ever half-changed.
    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sources {
    /// The file and what was learned since, as far as they are about this call.
    fn known_of(&self, key: &CallKey) -> CallRecord {
        let mut known = self.file.histories.get(key).cloned().unwrap_or_default();
        self.fresh.histories.get(key).inspect(|fresh| known.merge(fresh));
        known
    }

    /// Whether a program that reads the file would start otherwise than it should, or would take what
    /// was learned just now for old.
    fn has_news(&self, key: &CallKey, free: Option<u64>, now: Moment) -> bool {
        let is_recent = |newest| now.since(newest) < Moment::DAY;
        let recent =
            self.file.histories.get(key).filter(|history| history.evidence.newest().is_some_and(is_recent));
        match (recent.and_then(|history| history.hint(free)), self.known_of(key).hint(free)) {
            (Some(before), Some(after)) => is_news(&before, &after),
            _ => true,
        }
    }

    fn is_left_alone(&self) -> bool {
        self.locked_at.is_some_and(|at| at.elapsed() < LEFT_ALONE)
    }
}
