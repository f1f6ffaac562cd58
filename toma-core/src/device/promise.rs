//! Bytes of a device that work has promised to stay within and not yet allocated.
//!
//! # Why
//!
//! A promise is no reservation. It is made inside attempts, which hold turns, so it never waits and is
//! never refused. It is lowered as bytes are allocated, of which a reservation knows nothing.

use std::process;
use std::sync::atomic::Ordering::Relaxed;

use super::turn::Device;
use crate::memory::{MemorySource, Reading};

/// Promises that the caller will allocate `bytes` more of a device.
///
/// Work that plans how to use its memory reads what is free, and allocates it piece by piece. Until then other work of
/// the process would take the same bytes for free. So what is promised is not free to others: not to policies and
/// predictions, not to [`reserve`](super::reserve), and not to work that asks [`promised_bytes`].
///
/// A promise never waits and is never refused. Lower it as bytes are allocated: they are not free by themselves then.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::device;
/// use toma::memory::{MemorySource, Reading};
///
/// /// Has 1000 bytes.
/// #[derive(Debug)]
/// struct Device;
///
/// impl MemorySource for Device {
///     fn name(&self) -> &str {
///         "pool:2"
///     }
///
///     fn read(&self) -> std::io::Result<Reading> {
///         Ok(Reading::new(1000, 1000))
///     }
/// }
///
/// let mut promise = device::promise(&Device, 700);
/// assert_eq!(device::promised_bytes(&Device), 700);
/// assert!(device::try_reserve(&Device, 400).is_err());
///
/// promise.set(100);
/// assert_eq!(device::promised_bytes(&Device), 100);
/// assert!(device::try_reserve(&Device, 400).is_ok());
///
/// drop(promise);
/// assert_eq!(device::promised_bytes(&Device), 0);
/// ```
pub fn promise(device: &dyn MemorySource, bytes: u64) -> Promise {
    let mut promise = Promise { device: Device::of(device), bytes: 0, process: process::id() };
    promise.set(bytes);
    promise
}

/// Bytes of a device that living [promises](promise) of the process have, and that are not allocated yet.
pub fn promised_bytes(device: &dyn MemorySource) -> u64 {
    Device::of(device).queue.promised.get().load(Relaxed)
}

/// What is free of a device and not promised.
pub(crate) fn unpromised(device: &dyn MemorySource, reading: Reading) -> Reading {
    let free_bytes = reading.free_bytes.saturating_sub(promised_bytes(device));
    Reading { free_bytes, ..reading }
}

/// Bytes that its owner will allocate; taken back when it is dropped.
#[must_use = "the promise is taken back when this is dropped"]
#[derive(Debug)]
pub struct Promise {
    device: Device,
    bytes: u64,
    /// A child of `fork` has none of its parent's promises.
    process: u32,
}

impl Promise {
    /// The name of the device.
    pub fn device(&self) -> &str {
        self.device.name()
    }

    /// The bytes that are promised.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Promises so many bytes instead. Returns what all others have promised at that moment.
    ///
    /// Of two that promise at the same time, one at least sees the other: so work reads what is free, promises what its
    /// plan takes, and takes a leaner plan where that and what is returned are more than was free.
    pub fn set(&mut self, bytes: u64) -> u64 {
        if self.process != process::id() {
            return 0;
        }
        let promised = self.device.queue.promised.get();
        let added = bytes.wrapping_sub(self.bytes);
        // Modulo 2^64, as atomic sums are; no device has so many bytes.
        let all = promised.fetch_add(added, Relaxed).wrapping_add(added);
        self.bytes = bytes;
        all.wrapping_sub(bytes)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.set(0);
    }
}
