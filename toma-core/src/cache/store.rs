//! The table behind the caches: the cold path.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use lru::LruCache;

use super::Remembered;
use super::key::{Key, Place};
use super::levels::Levels;
use super::memo::{self, Known};
use crate::policy::Measurements;
use crate::text::bytes;

/// Entries a cache holds; beyond it the one least recently learned or looked up on the cold path
/// goes.
const MAX_ENTRIES: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// One entry of a cache, for inspection.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{cache::GlobalCache, classify::OutOfMemory, execute};
///
/// let sizes = GlobalCache::new();
/// execute::with::<GlobalCache>().cache(&sizes).name("resize").range(0..256, 256, |start, end| {
///     if end - start > 100 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// assert!(sizes.entries()[0].to_string().starts_with("resize: size 64, called at "));
/// # Ok::<(), OutOfMemory>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Entry {
    /// The name of the call.
    pub name: String,
    /// What tells it apart from others of the same name.
    pub key: Key,
    /// What is remembered.
    pub remembered: Remembered,
}

#[derive(Debug)]
pub(super) struct Store {
    /// 0 until it is asked for.
    id: AtomicU64,
    /// Moves whenever something is learned; 0 while nothing ever was.
    generation: AtomicU64,
    table: OnceLock<Mutex<Table>>,
}

/// Says what is known of a place about which a store has learned nothing, given its seed.
pub(super) type Elsewhere<'a> = &'a dyn Fn(&Place<'_>, Option<Remembered>) -> Option<Remembered>;

#[derive(Debug)]
struct Table {
    entries: LruCache<Key, (String, Levels)>,
    seeds: HashMap<String, Remembered>,
}

impl Store {
    pub(super) const fn new() -> Self {
        Self { id: AtomicU64::new(0), generation: AtomicU64::new(0), table: OnceLock::new() }
    }

    /// A store that is asked although it has learned nothing, because something else has.
    #[cfg(feature = "persistent")]
    pub(super) const fn awake() -> Self {
        Self { id: AtomicU64::new(0), generation: AtomicU64::new(1), table: OnceLock::new() }
    }

    /// What is known under the key, which is made only when anything is known at all.
    #[inline]
    pub(super) fn recall(&self, place: &Place<'_>, key: impl FnOnce() -> Key) -> Option<Remembered> {
        self.recall_or(place, key, &|_, seeded| seeded)
    }

    /// The same; where nothing was learned, `elsewhere` says what is known, given the seed.
    #[inline]
    pub(super) fn recall_or(
        &self,
        place: &Place<'_>,
        key: impl FnOnce() -> Key,
        elsewhere: Elsewhere<'_>,
    ) -> Option<Remembered> {
        match self.generation.load(Ordering::Acquire) {
            0 => None,
            generation => self.recall_at(generation, &key(), place, elsewhere),
        }
    }

    #[inline]
    fn recall_at(
        &self,
        generation: u64,
        key: &Key,
        place: &Place<'_>,
        elsewhere: Elsewhere<'_>,
    ) -> Option<Remembered> {
        let plain = memo::with(self.id(), generation, key, |known| match known {
            Known::Plain(remembered) => Some(remembered.clone()),
            Known::Many(_) => None,
        });
        match plain {
            Some(Some(remembered)) => remembered,
            Some(None) => self.choose(generation, key, place, elsewhere),
            None => self.look_up(key, place, elsewhere),
        }
    }

    /// A memory source is anybody's code and may come back here: it is read outside the memo.
    #[cold]
    fn choose(
        &self,
        generation: u64,
        key: &Key,
        place: &Place<'_>,
        elsewhere: Elsewhere<'_>,
    ) -> Option<Remembered> {
        let free = place.free_bytes();
        let chosen = memo::with(self.id(), generation, key, |known| match known {
            Known::Plain(remembered) => remembered.clone(),
            Known::Many(levels) => levels.choose(|| free),
        });
        chosen.unwrap_or_else(|| self.look_up(key, place, elsewhere))
    }

    #[cold]
    fn look_up(&self, key: &Key, place: &Place<'_>, elsewhere: Elsewhere<'_>) -> Option<Remembered> {
        let (found, generation) = {
            let mut table = self.table();
            // Under the lock, so that what is kept is what this generation says.
            (table.find(key, place), self.generation.load(Ordering::Acquire))
        };
        // Not under the lock: elsewhere may be anybody's code, which may come back here.
        let levels =
            found.unwrap_or_else(|seeded| elsewhere(place, seeded).map_or_else(Levels::default, Levels::one));
        let own = levels.unshared();
        let known = if own.is_plain() { Known::Plain(own.first()) } else { Known::Many(Box::new(own)) };
        memo::keep(self.id(), generation, key, known);
        levels.choose(|| place.free_bytes())
    }

    pub(super) fn remember(&self, key: &Key, place: &Place<'_>, learned: Remembered) {
        let mut table = self.table();
        match table.entries.get_mut(key) {
            Some((_, levels)) => levels.learn(learned),
            None => {
                table.entries.put(*key, (place.name().to_string(), Levels::one(learned)));
            }
        }
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Keeps what a call has measured, for this thread alone; until something is learned.
    pub(super) fn note(&self, place: &Place<'_>, key: impl FnOnce() -> Key, measurements: &Measurements) {
        let generation = self.generation.load(Ordering::Acquire);
        if generation == 0 {
            return;
        }
        let (id, key) = (self.id(), &key());
        let is_plain = memo::with(id, generation, key, |known| matches!(known, Known::Plain(_)));
        // A memory source is anybody's code and may come back here: it is read outside the memo.
        let free = if is_plain == Some(false) { place.free_bytes() } else { None };
        memo::change(id, generation, key, |known| match known {
            Known::Plain(Some(remembered)) => remembered.note(measurements),
            Known::Plain(None) => {}
            Known::Many(levels) => levels.note(free, measurements),
        });
    }

    pub(super) fn seed(&self, name: String, size: usize) {
        let mut table = self.table();
        table.seeds.insert(name, Remembered::new(size));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// What is known elsewhere has changed.
    #[cfg(feature = "persistent")]
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        let mut table = self.table();
        table.entries.clear();
        table.seeds.clear();
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let table = self.table();
        let each = |(key, (name, levels)): (&Key, &(String, Levels))| {
            let (key, name) = (*key, name.clone());
            let entries =
                levels.iter().cloned().map(move |remembered| Entry { name: name.clone(), key, remembered });
            entries.collect::<Vec<_>>()
        };
        table.entries.iter().flat_map(each).collect()
    }

    /// Nothing in the table is ever half-changed, so a lock poisoned by a panic is as good as new.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells stores apart in the memos of threads, which outlive instances.
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
        // Two threads may both come here; whoever is first names the store.
        self.id.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(id)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Remembered { settled, free_bytes, .. } = &self.remembered;
        write!(f, "{}: size {settled}", self.name)?;
        if let Some(free_bytes) = free_bytes {
            write!(f, " with {} free", bytes(free_bytes))?;
        }
        write!(f, ", {}", self.key)
    }
}

impl Default for Table {
    fn default() -> Self {
        Self { entries: LruCache::new(MAX_ENTRIES), seeds: HashMap::new() }
    }
}

impl Table {
    /// What was learned, or else the seed.
    fn find(&mut self, key: &Key, place: &Place<'_>) -> Result<Levels, Option<Remembered>> {
        if let Some((_, levels)) = self.entries.get(key) {
            return Ok(levels.clone());
        }
        if self.seeds.is_empty() {
            return Err(None);
        }
        Err(self.seeds.get(&place.name().to_string()).cloned())
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{Measurements, Mutex, Remembered, Store};
    use crate::cache::Place;
    use crate::call_site::Name;
    use crate::call_site::{Above, Origin};

    /// A place that is nothing but a name and a key.
    fn with_place<R>(name: &'static str, user: u64, act: impl FnOnce(&Place<'_>) -> R) -> R {
        let origin = Origin { site: None, caller: None, above: Above::Unknown };
        let name = Name::of(Some(Cow::Borrowed(name)), &origin);
        act(&Place { origin: &origin, name: &name, user, device: None })
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
    fn what_is_noted_is_the_threads_own_until_something_is_learned() {
        let store = Store::new();
        let note = |clean_runs| {
            let measurements = Measurements { clean_runs, ..Measurements::NEW };
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

    #[test]
    fn a_lock_that_a_panic_left_poisoned_is_used_all_the_same() {
        let store = Store::new();
        remember(&store, "a", 1, 8);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _table = store.table();
            panic!("while the table is locked");
        }));
        assert!(panic.is_err());
        assert!(store.table.get().is_some_and(Mutex::is_poisoned));
        assert_eq!(recall(&store, "a", 1), Some(8));
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| recall(&store, "a", 1)).join().unwrap());
        assert_eq!(elsewhere, Some(8), "without what this thread has looked up");
        remember(&store, "a", 1, 4);
        remember(&store, "b", 2, 2);
        store.seed("c".into(), 16);
        assert_eq!(
            [recall(&store, "a", 1), recall(&store, "b", 2), recall(&store, "c", 3)],
            [4, 2, 16].map(Some)
        );
        assert_eq!(store.entries().len(), 2);
        store.clear();
        assert_eq!([recall(&store, "a", 1), recall(&store, "c", 3)], [None, None]);
    }
}
