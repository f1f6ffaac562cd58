//! The learned evidence of a cache: a memo of each thread on the warm path, and a table behind the memos.
//!
//! # Why
//!
//! Measurements of warm calls stay in the thread's memo until a thread learns something. So batches earn the time
//! for their probes without shared memory. Learning drops the notes of other threads, which makes policies more
//! careful, never less.
//!
//! A second source, such as a file, is asked only if the memo has no entry. So a warm call of a persistent cache
//! costs as much as one of `GlobalCache`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::Entry;
use super::key::{Key, Place};
use super::levels::Levels;
use super::memo;
use super::table::{Learned, Table};
use super::{Callers, Remembered};
use crate::policy::Measurements;

#[derive(Debug)]
pub(super) struct Store {
    /// 0 until it is first used.
    id: AtomicU64,
    /// Changes after anything was learned; 0 while nothing ever was.
    generation: AtomicU64,
    table: OnceLock<Table>,
}

/// Returns evidence from a second source about a place of which a store has learned nothing, given its seed.
pub(super) type Elsewhere<'a> = &'a dyn Fn(&Place<'_>, Option<Remembered>) -> Option<Remembered>;

impl Store {
    pub(super) const fn new() -> Self {
        Self { id: AtomicU64::new(0), generation: AtomicU64::new(0), table: OnceLock::new() }
    }

    /// A store that is asked although it has learned nothing, because a second source may have evidence.
    #[cfg(feature = "persistent")]
    pub(super) const fn awake() -> Self {
        Self { id: AtomicU64::new(0), generation: AtomicU64::new(1), table: OnceLock::new() }
    }

    /// Returns the evidence under the key, which is computed only if the store has any evidence at all.
    #[inline]
    pub(super) fn recall(&self, place: &Place<'_>, key: impl FnOnce() -> Key) -> Option<Remembered> {
        self.recall_or(place, key, &|_, seeded| seeded)
    }

    /// Works as [`recall`](Self::recall); if nothing was learned, `elsewhere` provides the evidence, given the
    /// seed.
    #[inline]
    pub(super) fn recall_or(
        &self,
        place: &Place<'_>,
        key: impl FnOnce() -> Key,
        elsewhere: Elsewhere<'_>,
    ) -> Option<Remembered> {
        let generation = self.generation.load(Ordering::Acquire);
        if generation == 0 {
            return None;
        }
        let key = &key();
        let known = memo::with(self.id(), generation, key, |entry| {
            if entry.levels.is_plain() { Some(entry.known(None, place.cap)) } else { None }
        });
        match known {
            Some(Some(known)) => known,
            Some(None) => self.choose(generation, key, place, elsewhere),
            None => self.look_up(key, place, elsewhere),
        }
    }

    /// Chooses among several levels by the free memory. A memory source is foreign code that may come back here, so
    /// it is read outside the memo.
    #[cold]
    fn choose(
        &self,
        generation: u64,
        key: &Key,
        place: &Place<'_>,
        elsewhere: Elsewhere<'_>,
    ) -> Option<Remembered> {
        let free = place.free_bytes();
        let chosen = memo::with(self.id(), generation, key, |entry| entry.known(free, place.cap));
        chosen.unwrap_or_else(|| self.look_up(key, place, elsewhere))
    }

    #[cold]
    fn look_up(&self, key: &Key, place: &Place<'_>, elsewhere: Elsewhere<'_>) -> Option<Remembered> {
        // Loaded before the table is read: learning something meanwhile changes the generation, so the memo is
        // looked up anew.
        let (generation, table) = (self.generation.load(Ordering::Acquire), self.table());
        let levels = table.levels(key).unwrap_or_else(|| Levels::from(elsewhere(place, table.seeded(place))));
        let free = if levels.is_plain() { None } else { place.free_bytes() };
        memo::keep(self.id(), generation, key, levels.unshared());
        table.counted(key, levels.at(free), place.cap)
    }

    pub(super) fn remember(&self, key: &Key, place: &Place<'_>, learned: Remembered) {
        // Outside the table's lock: an unwinder may wait for a thread that loads a library, and that thread for the
        // lock.
        let callers = if key.has_stack() { place.callers() } else { Callers::default() };
        let nothing = Learned::nothing(place.name().to_string(), callers);
        self.change(|table| table.learn(key, nothing, learned));
    }

    /// Keeps the measurements of a call for this thread alone, until something is learned.
    pub(super) fn note(&self, place: &Place<'_>, key: impl FnOnce() -> Key, measurements: &Measurements) {
        let generation = self.generation.load(Ordering::Acquire);
        if generation == 0 {
            return;
        }
        let (id, key) = (self.id(), &key());
        let is_plain = memo::with(id, generation, key, |entry| entry.levels.is_plain());
        // A memory source is foreign code that may come back here, so it is read outside the memo.
        let free = if is_plain == Some(false) { place.free_bytes() } else { None };
        memo::change(id, generation, key, |levels| levels.note(free, measurements));
    }

    pub(super) fn seed(&self, name: String, size: usize) {
        self.change(|table| table.seeds.insert(name, Remembered::new(size)));
    }

    /// Makes threads look again, because a second source has changed.
    #[cfg(feature = "persistent")]
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.change(Table::clear);
    }

    /// Returns the entries, the one learned last first.
    pub(super) fn entries(&self) -> Vec<Entry> {
        self.table().entries()
    }

    /// Changes the table and the generation, so that threads look again.
    fn change<R>(&self, change: impl FnOnce(&Table) -> R) {
        change(self.table());
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn table(&self) -> &Table {
        self.table.get_or_init(Table::default)
    }

    /// Identifies the store in the memos of threads, which outlive instances.
    #[inline]
    fn id(&self) -> u64 {
        match self.id.load(Ordering::Relaxed) {
            0 => self.new_id(),
            id => id,
        }
    }

    #[cold]
    fn new_id(&self) -> u64 {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        // Two threads may both come here; the first one sets the id.
        self.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(id)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{Measurements, Remembered, Store};
    use crate::cache::Place;
    use crate::call_site::Name;
    use crate::call_site::{Above, Origin};

    /// A place with a name and a key alone.
    fn with_place<R>(name: &'static str, user: u64, act: impl FnOnce(&Place<'_>) -> R) -> R {
        let origin = Origin { site: None, caller: None, above: Above::Unknown };
        let name = Name::of(Some(Cow::Borrowed(name)), &origin);
        act(&Place { origin: &origin, name: &name, user, device: None, cap: usize::MAX })
    }

    fn recall(store: &Store, name: &'static str, user: u64) -> Option<usize> {
        let known = with_place(name, user, |place| store.recall(place, || place.by_function()));
        known.map(|known| known.settled)
    }

    fn remember(store: &Store, name: &'static str, user: u64, size: usize) {
        with_place(name, user, |place| store.remember(&place.by_function(), place, Remembered::new(size)));
    }

    /// Successes that this thread has on record.
    fn runs(store: &Store) -> Option<u32> {
        let known = with_place("a", 1, |place| store.recall(place, || place.by_function()));
        known.and_then(|known| known.measurements).map(|measurements| measurements.clean_runs)
    }

    #[test]
    fn notes_are_the_threads_own_until_something_is_learned() {
        let store = Store::new();
        let note = |clean_runs| {
            let measurements = Measurements { clean_runs, ..Measurements::default() };
            with_place("a", 1, |place| store.note(place, || place.by_function(), &measurements));
        };
        note(5);
        assert_eq!(recall(&store, "a", 1), None, "a note is no size");
        remember(&store, "a", 1, 8);
        note(6);
        assert_eq!(runs(&store), None, "this thread has not looked yet");
        note(7);
        assert_eq!((runs(&store), recall(&store, "a", 1)), (Some(7), Some(8)));
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| runs(&store)).join().unwrap());
        assert_eq!(elsewhere, None);
        assert_eq!(runs(&store), Some(7), "another thread's look changes nothing");
        remember(&store, "b", 2, 8);
        assert_eq!(runs(&store), None);
    }
}
