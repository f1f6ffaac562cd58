//! The storage through which ranks exchange their votes.

use std::fmt;
use std::time::Duration;

/// A store of bytes by key that all ranks reach: c10d's `TCPStore`, a map in one process, or any other.
///
/// Each operation is atomic for all ranks, and the operations of one rank happen in its order.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::time::Duration;
/// use toma::ranks::{Group as _, Member, MemoryStore, Store, StoreError};
///
/// /// A part of a store, whose keys have a prefix.
/// #[derive(Debug)]
/// struct Part(&'static str, MemoryStore);
///
/// impl Part {
///     fn key(&self, key: &str) -> String {
///         format!("{}/{key}", self.0)
///     }
/// }
///
/// impl Store for Part {
///     fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
///         self.1.set(&self.key(key), bytes)
///     }
///
///     fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError> {
///         self.1.add(&self.key(key), amount)
///     }
///
///     fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
///         self.1.get(&self.key(key))
///     }
///
///     fn wait(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
///         self.1.wait(&self.key(key), timeout)
///     }
///
///     fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
///         self.1.set_first(&self.key(key), bytes)
///     }
///
///     fn delete(&self, key: &str) -> Result<(), StoreError> {
///         self.1.delete(&self.key(key))
///     }
/// }
///
/// let rank = Member::new(Part("run-7", MemoryStore::default()), 0, 1)?;
/// assert_eq!(rank.size(), 1);
/// # Ok::<(), toma::ranks::Error>(())
/// ```
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Stores bytes under a key, replacing those that were there.
    ///
    /// # Errors
    /// If the store cannot be reached, as for all of these methods.
    fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Adds to a number that begins at 0; returns the sum.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError>;

    /// Returns the current bytes of a key.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Waits for the bytes of a key; returns `None` after the timeout. Other threads can use the store meanwhile.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn wait(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores bytes under a key unless it has some; returns the bytes that are there then.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError>;

    /// Removes a key, if it exists.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn delete(&self, key: &str) -> Result<(), StoreError>;
}

/// The error message of a store.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::{Error, StoreError};
///
/// let error = Error::from(StoreError("connection refused".to_owned()));
/// assert!(matches!(error, Error::Store(message) if message.contains("connection refused")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for super::Error {
    fn from(error: StoreError) -> Self {
        Self::Store(error.0)
    }
}
