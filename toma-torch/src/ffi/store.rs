//! A key-value store that processes share: c10d's `TCPStore`.

use std::ffi::{CString, c_char, c_void};
use std::ptr::{self, NonNull};
use std::time::Duration;

use super::{RawError, checked};
use crate::error::{Error, ErrorKind};

unsafe extern "C" {
    // These read texts that end with a zero, and `size` bytes.
    fn toma_store_open(
        host: *const c_char,
        port: u16,
        serves: bool,
        timeout_ms: u64,
        out: &mut *mut c_void,
        error: &mut RawError,
    ) -> i32;
    fn toma_store_clone(store: *mut c_void, out: &mut *mut c_void, error: &mut RawError) -> i32;
    fn toma_store_close(store: *mut c_void);
    fn toma_store_set(
        store: *mut c_void,
        key: *const c_char,
        data: *const u8,
        size: usize,
        error: &mut RawError,
    ) -> i32;
    fn toma_store_set_first(
        store: *mut c_void,
        key: *const c_char,
        data: *const u8,
        size: usize,
        out: &mut RawBytes,
        error: &mut RawError,
    ) -> i32;
    fn toma_store_add(
        store: *mut c_void,
        key: *const c_char,
        amount: i64,
        sum: &mut i64,
        error: &mut RawError,
    ) -> i32;
    fn toma_store_get(
        store: *mut c_void,
        key: *const c_char,
        timeout_ms: u64,
        out: &mut RawBytes,
        error: &mut RawError,
    ) -> i32;
    fn toma_store_delete(store: *mut c_void, key: *const c_char, error: &mut RawError) -> i32;
}

#[repr(C)]
struct RawBytes {
    data: *mut u8,
    room: usize,
    size: usize,
    is_there: bool,
}

/// A connection to a store.
#[derive(Debug)]
pub(crate) struct Connection(NonNull<c_void>);

// SAFETY: libtorch's client takes a lock of its own around each operation.
unsafe impl Send for Connection {}
// SAFETY: see above.
unsafe impl Sync for Connection {}

impl Connection {
    /// Connects to the store at this host; with `serves`, starts the store there first.
    pub(crate) fn open(host: &str, port: u16, serves: bool, timeout: Duration) -> Result<Self, Error> {
        let (host, mut out) = (text(host)?, ptr::null_mut());
        let timeout_ms = milliseconds(timeout);
        // SAFETY: the text lives through the call.
        checked(|error| unsafe {
            toma_store_open(host.as_ptr(), port, serves, timeout_ms, &mut out, error)
        })?;
        Ok(Self(NonNull::new(out).expect("a store was handed out")))
    }

    /// Opens another connection to the same store, so that a wait on it does not block this one.
    pub(crate) fn open_another(&self) -> Result<Self, Error> {
        let mut out = ptr::null_mut();
        // SAFETY: the store is open until this is dropped.
        checked(|error| unsafe { toma_store_clone(self.0.as_ptr(), &mut out, error) })?;
        Ok(Self(NonNull::new(out).expect("a store was handed out")))
    }

    pub(crate) fn set(&self, key: &str, bytes: &[u8]) -> Result<(), Error> {
        let key = text(key)?;
        // SAFETY: the store is open, and text and bytes live through the call.
        checked(|error| unsafe {
            toma_store_set(self.0.as_ptr(), key.as_ptr(), bytes.as_ptr(), bytes.len(), error)
        })
    }

    /// Sets a value unless the key has one; returns the value that the key has then.
    pub(crate) fn set_first(&self, key: &str, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let key = text(key)?;
        let first = read(|out, error| {
            // SAFETY: see `set`; `out` has the room that its field gives.
            unsafe {
                toma_store_set_first(self.0.as_ptr(), key.as_ptr(), bytes.as_ptr(), bytes.len(), out, error)
            }
        });
        Ok(first?.unwrap_or_default())
    }

    pub(crate) fn add(&self, key: &str, amount: i64) -> Result<i64, Error> {
        let (key, mut sum) = (text(key)?, 0);
        // SAFETY: the store is open, and the text lives through the call.
        checked(|error| unsafe { toma_store_add(self.0.as_ptr(), key.as_ptr(), amount, &mut sum, error) })?;
        Ok(sum)
    }

    /// Returns the value of a key if it is set or becomes set within the timeout. Meanwhile the connection does nothing
    /// else.
    pub(crate) fn get(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, Error> {
        let (key, timeout_ms) = (text(key)?, milliseconds(timeout));
        read(|out, error| {
            // SAFETY: see `add`; `out` has the room that its field gives.
            unsafe { toma_store_get(self.0.as_ptr(), key.as_ptr(), timeout_ms, out, error) }
        })
    }

    pub(crate) fn delete(&self, key: &str) -> Result<(), Error> {
        let key = text(key)?;
        // SAFETY: the store is open, and the text lives through the call.
        checked(|error| unsafe { toma_store_delete(self.0.as_ptr(), key.as_ptr(), error) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the store was handed out to be closed once.
        unsafe { toma_store_close(self.0.as_ptr()) }
    }
}

fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|error| Error::new(ErrorKind::Other, format!("{text:?}: {error}")))
}

/// Reads bytes, and again if there are more than expected.
fn read(mut call: impl FnMut(&mut RawBytes, &mut RawError) -> i32) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = vec![0; 256];
    loop {
        let mut out = RawBytes { data: bytes.as_mut_ptr(), room: bytes.len(), size: 0, is_there: true };
        checked(|error| call(&mut out, error))?;
        if !out.is_there {
            return Ok(None);
        }
        let (fits, size) = (out.size <= bytes.len(), out.size);
        bytes.resize(size, 0);
        if fits {
            return Ok(Some(bytes));
        }
    }
}

/// Converts to libtorch's milliseconds, limited so that adding them to the time of day does not overflow.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(1 << 40)
}
