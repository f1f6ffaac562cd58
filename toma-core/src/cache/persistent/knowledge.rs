//! What a cache knows: its file as last read, what it has learned since, and the table it was given.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::book::{Book, MAX_ENTRIES, Record};
use super::call::Call;
use super::disk::{Change, Contents, Disk, Stamp};
use super::evidence::Observation;
use super::hint::is_news;
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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The file as it was last read or written.
    file: Book,
    stamp: Stamp,
    is_read: bool,
    /// What this process has learned and not yet written.
    fresh: Book,
    table: Book,
    has_told: Told,
    locked_at: Option<Instant>,
}

/// What was said on standard error, and will not be said again.
#[derive(Debug, Default)]
struct Told {
    aside: bool,
    trouble: bool,
    table: bool,
}

impl Knowledge {
    pub(super) fn new(disk: Option<Disk>) -> Self {
        Self { disk, state: Mutex::default() }
    }

    pub(super) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Where a call may start: what the file knows, or else what was `seeded`, or else the table.
    pub(super) fn hint(
        &self,
        call: &Call,
        now: Option<Reading>,
        seeded: Option<Remembered>,
    ) -> Option<Remembered> {
        let free = now.map(|now| now.free_bytes);
        let mut state = self.up_to_date();
        match state.known_of(call).hint(call, free) {
            Some(hint) => {
                self.use_now(&mut state, call);
                Some(hint)
            }
            None => seeded.or_else(|| state.table.hint_by_name(call, free)),
        }
    }

    /// Notes that the call was used, which is written with whatever is learned next. When so much is
    /// known that something will have to go, it is written at once, though not twice a day.
    fn use_now(&self, state: &mut State, call: &Call) {
        let now = Moment::now();
        let last = state.file.get(call).map(Record::last);
        state.fresh.touch(call, now);
        let is_due = last.is_some_and(|last| now.since(last) > Moment::DAY);
        if is_due && state.file.len() > MAX_ENTRIES / 2 {
            self.write(state);
        }
    }

    /// Takes note of what a call has learned, and writes it unless the file says about the same.
    pub(super) fn learn(&self, call: &Call, learned: &Remembered) {
        let mut state = self.up_to_date();
        // The clock may have gone back, or be behind that of another machine: what is learned later is
        // the newer evidence all the same.
        let newest = state.known_of(call).get(call).and_then(|record| record.evidence.newest());
        let at = Moment::at(learned.learned).max(newest.map_or(Moment::default(), Moment::next));
        state.fresh.learn(call, Observation::new(learned, at));
        if state.has_news(call, learned.free_bytes, at) {
            self.write(&mut state);
        }
    }

    /// Writes what is not written yet.
    pub(super) fn flush(&self) {
        let mut state = self.state();
        if state.fresh.into_iter().any(|(_, record)| !record.evidence.is_empty()) {
            state.locked_at = None;
            self.write(&mut state);
        }
    }

    pub(super) fn clear(&self) {
        let mut state = self.state();
        (state.fresh, state.table, state.file) = Default::default();
        if let Some(disk) = self.disk.as_ref().filter(|disk| disk.stamp().is_some()) {
            let cleared = disk.update(|_| Change::Replace(Book::default()));
            self.take(&mut state, cleared);
        }
    }

    /// Everything but the table.
    pub(super) fn all(&self) -> Book {
        let state = self.up_to_date();
        let mut all = state.file.clone();
        all.merge(&state.fresh);
        all.keep_newest(usize::MAX);
        all
    }

    pub(super) fn add_table(&self, table: &str) {
        let mut state = self.state();
        match text::read(table.as_bytes()) {
            Ok(table) => state.table.merge(&table),
            Err(why) => {
                say_once(&mut state.has_told.table, || format!("toma: a size table {why}; it is not used"));
            }
        }
    }

    /// The state after the file was read, if it is new to us.
    fn up_to_date(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if let Some(disk) = &self.disk {
            let is_new = !state.is_read || disk.stamp() != state.stamp;
            if is_new && !state.is_left_alone() {
                let contents = disk.read();
                self.take(&mut state, contents);
            }
        }
        state
    }

    fn write(&self, state: &mut State) {
        if state.is_left_alone() {
            return;
        }
        let written = match &self.disk {
            None => Err(io::Error::other("no folder for caches is known, is HOME set?")),
            Some(disk) => disk.update(|file| {
                let mut all = file.clone();
                all.merge(&state.fresh);
                Change::Replace(all)
            }),
        };
        if self.take(state, written) {
            state.fresh = Book::default();
        } else {
            // What cannot be written must not fill the memory instead.
            state.fresh.keep_newest(MAX_ENTRIES);
        }
    }

    /// Takes over what is in the file now, or says why it could not be had.
    fn take(&self, state: &mut State, contents: io::Result<Contents>) -> bool {
        state.is_read = true;
        let path = self.disk.as_ref().map_or_else(String::new, |disk| format!(" {}", disk.path().display()));
        match contents {
            Ok(Contents { book, stamp, aside }) => {
                (state.file, state.stamp) = (book, stamp);
                if let Some(aside) = aside {
                    let (why, to) = (aside.why, aside.to.display());
                    let line = || format!("toma: size cache{path} {why}; it is set aside as {to}");
                    say_once(&mut state.has_told.aside, line);
                }
                true
            }
            Err(error) => {
                state.stamp = self.disk.as_ref().and_then(Disk::stamp);
                state.locked_at = Some(Instant::now()).filter(|_| error.kind() == io::ErrorKind::WouldBlock);
                let line = || format!("toma: size cache{path}: {error}; sizes are remembered in memory only");
                say_once(&mut state.has_told.trouble, line);
                false
            }
        }
    }

    /// No user code runs under the lock, and nothing is ever half-changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The file and what was learned since, as far as they are about this call.
    fn known_of(&self, call: &Call) -> Book {
        let mut known = self.file.on_every_memory(call);
        known.merge(&self.fresh.on_every_memory(call));
        known
    }

    /// Whether a program that reads the file would start otherwise than it should, or would take what
    /// was learned just now for old.
    fn has_news(&self, call: &Call, free: Option<u64>, now: Moment) -> bool {
        let newest = self.file.get(call).and_then(|record| record.evidence.newest());
        let recent = newest.filter(|&newest| now.since(newest) < Moment::DAY);
        let before = recent.and_then(|_| self.file.hint(call, free));
        match (before, self.known_of(call).hint(call, free)) {
            (Some(before), Some(after)) => is_news(&before, &after),
            _ => true,
        }
    }

    fn is_left_alone(&self) -> bool {
        self.locked_at.is_some_and(|at| at.elapsed() < LEFT_ALONE)
    }
}

fn say_once(has_said: &mut bool, line: impl FnOnce() -> String) {
    if !std::mem::replace(has_said, true) {
        print(&line());
    }
}
