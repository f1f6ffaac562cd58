//! Ranks that are threads of one process: for tests, and for several devices in one process.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Member, Store, StoreError};

/// A store in this process.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::{Member, MemoryStore};
///
/// let store = MemoryStore::default();
/// let ranks = [0, 1].map(|rank| Member::new(store.clone(), rank, 2));
/// assert!(ranks.iter().all(Result::is_ok));
/// assert_eq!(store.keys(), 0); // nobody has voted
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Entries>);

#[derive(Debug, Default)]
struct Entries {
    entries: Mutex<HashMap<String, Vec<u8>>>,
    changed: Condvar,
}

/// A rank that is a thread of this process.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::{self, Group as _, ThreadRank};
///
/// /// The size at which both ranks begin.
/// fn first(rank: &ThreadRank) -> Result<usize, ranks::Error> {
///     rank.smallest(if rank.rank() == 0 { 512 } else { 256 })
/// }
///
/// let [one, other] = <[ThreadRank; 2]>::try_from(ranks::threads(2)).unwrap();
/// let of_other = std::thread::spawn(move || first(&other));
/// assert_eq!((first(&one)?, of_other.join().unwrap()?), (256, 256));
/// # Ok::<(), ranks::Error>(())
/// ```
pub type ThreadRank = Member<MemoryStore>;

/// Returns `size` ranks, each for a thread of this process, in the order of their numbers.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::thread;
/// use toma::ranks::{self, Group as _};
///
/// let values: Vec<_> = thread::scope(|scope| {
///     let ask = |rank: ranks::ThreadRank| rank.smallest(10 + rank.rank());
///     let asked: Vec<_> = ranks::threads(3).into_iter().map(|rank| scope.spawn(move || ask(rank))).collect();
///     asked.into_iter().map(|rank| rank.join().unwrap()).collect()
/// });
/// assert_eq!(values, [Ok(10), Ok(10), Ok(10)]);
/// ```
///
/// # Panics
/// When `size` is 0.
pub fn threads(size: usize) -> Vec<ThreadRank> {
    assert!(size > 0, "size 0: must be at least 1");
    let store = MemoryStore::default();
    let member = |rank| Member::new(store.clone(), rank, size).unwrap_or_else(|error| panic!("{error}"));
    (0..size).map(member).collect()
}

impl MemoryStore {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Vec<u8>>> {
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of keys in the store.
    pub fn keys(&self) -> usize {
        self.entries().len()
    }
}

impl Store for MemoryStore {
    fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.entries().insert(key.to_owned(), bytes);
        self.0.changed.notify_all();
        Ok(())
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError> {
        let mut entries = self.entries();
        let before = entries.get(key).and_then(|bytes| bytes.as_slice().try_into().ok());
        let sum = before.map_or(0, i64::from_le_bytes) + amount;
        entries.insert(key.to_owned(), sum.to_le_bytes().to_vec());
        Ok(sum)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.entries().get(key).cloned())
    }

    fn wait(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let is_missing = |entries: &mut HashMap<_, _>| !entries.contains_key(key);
        let waited = self.0.changed.wait_timeout_while(self.entries(), timeout, is_missing);
        Ok(waited.unwrap_or_else(PoisonError::into_inner).0.get(key).cloned())
    }

    fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        let first = self.entries().entry(key.to_owned()).or_insert(bytes).clone();
        self.0.changed.notify_all();
        Ok(first)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.entries().remove(key);
        Ok(())
    }
}
