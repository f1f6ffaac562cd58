//! c10d's `TCPStore` as the store of ranks.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use toma_core::ranks::{Error, Store, StoreError};

use crate::ffi::Connection;

/// A connection to the store, and the prefix of its keys.
#[derive(Clone)]
pub struct TcpStore {
    connection: Arc<Connection>,
    /// A connection for waits alone, because a wait blocks all other requests on its connection.
    waiting: Arc<Connection>,
    /// For error messages.
    address: Arc<str>,
    prefix: Arc<str>,
}

impl TcpStore {
    /// Connects to the store at this host, and serves it there if `serves` is true.
    ///
    /// # Errors
    /// Where the port is in use, or the host does not answer in time.
    pub fn open(host: &str, port: u16, serves: bool, timeout: Duration) -> Result<Self, Error> {
        let address: Arc<str> = format!("{host}:{port}").into();
        let connection = Connection::open(host, port, serves, timeout);
        let both =
            connection.and_then(|connection| Ok([connection.open_another()?, connection].map(Arc::new)));
        let [waiting, connection] = both.map_err(|error| Error::Store(format!("{address}: {error}")))?;
        Ok(Self { connection, waiting, address, prefix: "".into() })
    }

    pub(super) fn with_prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Returns the same store over new connections.
    pub(super) fn reconnected(&self) -> Result<Self, Error> {
        let open = || self.with_address(self.connection.open_another()).map(Arc::new);
        Ok(Self { connection: open()?, waiting: open()?, ..self.clone() })
    }

    /// Claims the number of this rank, which no other process may have, and checks that all ranks have the same size.
    pub(super) fn claims(&self, rank: usize, size: usize) -> Result<(), Error> {
        if self.add(&format!("taken/{rank}"), 1)? > 1 {
            return Err(Error::Invalid(format!("rank {rank}: another process has it")));
        }
        let known = self.set_first("size", size.to_string().into_bytes())?;
        let known = String::from_utf8_lossy(&known);
        if known != size.to_string() {
            return Err(Error::Invalid(format!("size {size}: other ranks have size {known}")));
        }
        Ok(())
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    fn with_address<T>(&self, result: Result<T, crate::Error>) -> Result<T, StoreError> {
        result.map_err(|error| StoreError(format!("{}: {error}", self.address)))
    }
}

impl Store for TcpStore {
    fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.with_address(self.connection.set(&self.key(key), &bytes))
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError> {
        self.with_address(self.connection.add(&self.key(key), amount))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.with_address(self.connection.get(&self.key(key), Duration::ZERO))
    }

    fn wait(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        self.with_address(self.waiting.get(&self.key(key), timeout.max(Duration::from_millis(1))))
    }

    fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        self.with_address(self.connection.set_first(&self.key(key), &bytes))
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.with_address(self.connection.delete(&self.key(key)))
    }
}

impl fmt::Debug for TcpStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpStore({})", self.address)
    }
}

/// Longest time that rank 0 serves the store while it waits for the others to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reports the end of this rank when dropped.
#[derive(Debug)]
pub(super) struct Farewell {
    store: TcpStore,
    size: usize,
    serves: bool,
    /// Ranks that will not report their end.
    missing: AtomicUsize,
}

impl Farewell {
    pub(super) fn new(store: TcpStore, size: usize, serves: bool) -> Arc<Self> {
        Arc::new(Self { store, size, serves, missing: AtomicUsize::new(0) })
    }

    /// Records that so many ranks are missing.
    pub(super) fn misses(&self, ranks: usize) {
        self.missing.fetch_max(ranks, Ordering::Relaxed);
    }

    /// Adds `more` ends of ranks, and returns true if all ranks have ended; also true if the store is gone.
    fn is_last(&self, more: i64) -> bool {
        let left = self.size - self.missing.load(Ordering::Relaxed).min(self.size);
        let gone = self.store.add("gone", more).ok().and_then(|gone| usize::try_from(gone).ok());
        gone.is_none_or(|gone| gone >= left)
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let (mut is_last, begun) = (self.is_last(1), Instant::now());
        // Polls, because libtorch warns when a wait ends without a value.
        while self.serves && !is_last && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
            is_last = self.is_last(0);
        }
    }
}
