//! Where ranks leave their votes.

use std::fmt;
use std::time::Duration;

/// A store of bytes by key that all ranks reach: c10d's `TCPStore`, a map in one process, or any other.
///
/// Each operation happens at once for all ranks, and those of one rank happen in its order.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Puts bytes there, whatever was there before.
    ///
    /// # Errors
    /// Where the store cannot be reached; so for all of these.
    fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError>;

    /// Adds to a number that begins at 0; returns the sum.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError>;

    /// What is there now.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// What is there, once it is; none after the timeout. Other threads can use the store meanwhile.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn wait(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError>;

    /// Puts bytes there unless something is; returns what is there then.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// See [`set`](Self::set).
    fn delete(&self, key: &str) -> Result<(), StoreError>;
}

/// What went wrong with a store, in its own words.
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
