//! A store in the memory of one process, for ranks that are its threads.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Store, StoreError};

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
