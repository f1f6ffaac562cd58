//! The table behind the caches: the cold path.
//!
//! A map in shards is read when a thread first looks for a key, so that short threads do not wait for each
//! other. What changes it takes one lock: learning is rare, and the order of learning bounds the map.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use dashmap::DashMap;

use super::doubts::Doubts;
use super::key::{Key, Place};
use super::levels::Levels;
use super::memo::{self, Lookup, Spread};
use super::{Callers, Remembered};
use crate::policy::Measurements;
use crate::text::bytes;

/// Entries a cache holds; beyond it the one learned longest ago goes.
const MAX_ENTRIES: usize = 4096;

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
    /// The functions above the call, where they tell entries apart.
    pub callers: Callers,
    /// What is remembered.
    pub remembered: Remembered,
}

#[derive(Debug)]
pub(super) struct Store {
    /// 0 until it is asked for.
    id: AtomicU64,
    /// Moves after anything was learned; 0 while nothing ever was.
    generation: AtomicU64,
    table: OnceLock<Table>,
}

/// Says what is known of a place about which a store has learned nothing, given its seed.
pub(super) type Elsewhere<'a> = &'a dyn Fn(&Place<'_>, Option<Remembered>) -> Option<Remembered>;

#[derive(Debug, Default)]
struct Table {
    learned: DashMap<Key, Learned, BuildHasherDefault<Spread>>,
    seeds: RwLock<HashMap<String, Remembered>>,
    order: Mutex<Order>,
}

/// What is known under one key.
#[derive(Debug)]
struct Learned {
    name: String,
    callers: Callers,
    levels: Levels,
    /// Its number in the order of learning.
    number: u64,
    /// What threads make of it that are too short to count on their own.
    doubts: Mutex<Doubts>,
}

/// The keys, by when they were last learned.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    keys: BTreeMap<u64, Key>,
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
        let plain = memo::with(self.id(), generation, key, |entry| match &entry.lookup {
            Lookup::Plain(known) => {
                let mut known = known.clone();
                known.iter_mut().for_each(|known| entry.doubts.count(known, place.cap));
                Some(known)
            }
            Lookup::Many(_) => None,
        });
        match plain {
            Some(Some(known)) => known,
            Some(None) => self.choose(generation, key, place, elsewhere),
            None => self.look_up(key, place, elsewhere),
        }
    }

    /// A memory source is foreign code and may come back here: it is read outside the memo.
    #[cold]
    fn choose(
        &self,
        generation: u64,
        key: &Key,
        place: &Place<'_>,
        elsewhere: Elsewhere<'_>,
    ) -> Option<Remembered> {
        let free = place.free_bytes();
        let chosen = memo::with(self.id(), generation, key, |entry| {
            let mut known = match &entry.lookup {
                Lookup::Plain(known) => known.clone(),
                Lookup::Many(levels) => levels.choose(|| free),
            };
            known.iter_mut().for_each(|known| entry.doubts.count(known, place.cap));
            known
        });
        chosen.unwrap_or_else(|| self.look_up(key, place, elsewhere))
    }

    #[cold]
    fn look_up(&self, key: &Key, place: &Place<'_>, elsewhere: Elsewhere<'_>) -> Option<Remembered> {
        // Before the table: what is learned meanwhile moves it on, and the memo is looked up anew.
        let generation = self.generation.load(Ordering::Acquire);
        let learned = self.table().learned.get(key).map(|learned| learned.levels.clone());
        let is_learned = learned.is_some();
        let levels = learned.unwrap_or_else(|| {
            // Not under a lock: elsewhere may be foreign code, which may come back here.
            elsewhere(place, self.table().seeded(place)).map_or_else(Levels::default, Levels::one)
        });
        let own = levels.unshared();
        let lookup = if own.is_plain() { Lookup::Plain(own.first()) } else { Lookup::Many(Box::new(own)) };
        memo::keep(self.id(), generation, key, lookup);
        let mut known = levels.choose(|| place.free_bytes())?;
        if is_learned {
            self.table().count(key, &mut known, place.cap);
        }
        Some(known)
    }

    pub(super) fn remember(&self, key: &Key, place: &Place<'_>, learned: Remembered) {
        // Before the lock: an unwinder may wait for a thread that loads a library, and that one for us.
        let callers = if key.has_stack() { place.callers() } else { Callers::default() };
        let nothing = Learned::nothing(place.name().to_string(), callers);
        self.change(|table, order| table.learn(order, key, nothing, learned));
    }

    /// Keeps what a call has measured, for this thread alone; until something is learned.
    pub(super) fn note(&self, place: &Place<'_>, key: impl FnOnce() -> Key, measurements: &Measurements) {
        let generation = self.generation.load(Ordering::Acquire);
        if generation == 0 {
            return;
        }
        let (id, key) = (self.id(), &key());
        let is_plain = memo::with(id, generation, key, |entry| matches!(entry.lookup, Lookup::Plain(_)));
        // A memory source is foreign code and may come back here: it is read outside the memo.
        let free = if is_plain == Some(false) { place.free_bytes() } else { None };
        memo::with(id, generation, key, |entry| match &mut entry.lookup {
            Lookup::Plain(Some(remembered)) => remembered.note(measurements),
            Lookup::Plain(None) => {}
            Lookup::Many(levels) => levels.note(free, measurements),
        });
    }

    pub(super) fn seed(&self, name: String, size: usize) {
        self.change(|table, _| table.seeds().insert(name, Remembered::new(size)));
    }

    /// What is known elsewhere has changed.
    #[cfg(feature = "persistent")]
    pub(super) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.change(|table, order| {
            table.learned.clear();
            order.keys.clear();
            table.seeds().clear();
        });
    }

    /// The one learned last comes first.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let table = self.table();
        let order = table.order();
        let learned = order.keys.values().rev().filter_map(|key| table.learned.get(key));
        learned.flat_map(|learned| learned.entries(*learned.key())).collect()
    }

    /// Whatever changes the table changes it alone, and threads look again after it has.
    fn change<R>(&self, change: impl FnOnce(&Table, &mut Order) -> R) {
        let table = self.table();
        let mut order = table.order();
        change(table, &mut order);
        self.generation.fetch_add(1, Ordering::Release);
    }

    fn table(&self) -> &Table {
        self.table.get_or_init(Table::default)
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
        // Two threads may both come here; the first one names the store.
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
        write!(f, ", {}", self.key)?;
        if self.callers.is_empty() { Ok(()) } else { write!(f, ", in {}", self.callers) }
    }
}

impl Table {
    /// Adds to what is known under `key`, of which there may be nothing yet.
    fn learn(&self, order: &mut Order, key: &Key, nothing: Learned, remembered: Remembered) {
        let mut learned = self.learned.entry(*key).or_insert(nothing);
        order.keys.remove(&learned.number);
        learned.number = order.next;
        learned.levels.learn(remembered);
        drop(learned);
        order.keys.insert(order.next, *key);
        order.next += 1;
        if order.keys.len() > MAX_ENTRIES {
            let oldest = order.keys.pop_first();
            oldest.map(|(_, key)| self.learned.remove(&key));
        }
    }

    /// A doubt that another thread is at is left to it.
    fn count(&self, key: &Key, known: &mut Remembered, cap: usize) {
        if let Some(learned) = self.learned.get(key)
            && let Ok(mut doubts) = learned.doubts.try_lock()
        {
            doubts.count(known, cap);
        }
    }

    fn seeded(&self, place: &Place<'_>) -> Option<Remembered> {
        let seeds = self.seeds.read().unwrap_or_else(PoisonError::into_inner);
        if seeds.is_empty() { None } else { seeds.get(&place.name().to_string()).cloned() }
    }

    /// Nothing here is ever half-changed, so a lock poisoned by a panic is as good as new.
    fn seeds(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<String, Remembered>> {
        self.seeds.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Learned {
    fn nothing(name: String, callers: Callers) -> Self {
        Self { name, callers, levels: Levels::default(), number: u64::MAX, doubts: Mutex::default() }
    }

    /// One for each level of free memory.
    fn entries(&self, key: Key) -> Vec<Entry> {
        let entry = |remembered: &Remembered| Entry {
            name: self.name.clone(),
            key,
            callers: self.callers.clone(),
            remembered: remembered.clone(),
        };
        self.levels.iter().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::{Measurements, Remembered, Store};
    use crate::cache::Place;
    use crate::call_site::Name;
    use crate::call_site::{Above, Origin};

    /// A place that is nothing but a name and a key.
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
            let _order = store.table().order();
            panic!("while the order is locked");
        }));
        assert!(panic.is_err());
        assert!(store.table().order.is_poisoned());
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
