//! Bytes of a device that work has promised not to exceed and has not yet allocated.
//!
//! # Why
//!
//! A promise is not a reservation. It is made inside attempts, which hold turns, so it never waits and is never
//! refused. It is lowered as bytes are allocated; a reservation does not follow allocations.

use std::process;
use std::sync::atomic::Ordering::Relaxed;

use super::turn::Device;
use crate::memory::{MemorySource, Reading};

/// Promises that the caller will allocate `bytes` more of a device.
///
/// Work that plans its use of memory reads the free bytes and then allocates them piece by piece. Until then, other
/// work of the process would count the same bytes as free. So promised bytes are not free to others: not to
/// policies and predictions, not to [`reserve`](super::reserve), and not to work that asks [`promised_bytes`].
///
/// A promise never waits and is never refused. Lower it as bytes are allocated, because allocated bytes no longer
/// count as free.
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

/// Returns the bytes of a device that live [promises](promise) of the process cover and that are not allocated yet.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{device, memory::Host};
///
/// let _promise = device::promise(Host::shared(), 1 << 20);
/// assert!(device::promised_bytes(Host::shared()) >= 1 << 20);
/// ```
pub fn promised_bytes(device: &dyn MemorySource) -> u64 {
    Device::of(device).queue.promised.get().load(Relaxed)
}

/// Subtracts the promised bytes of a device from the free bytes of a reading.
pub(crate) fn unpromised(device: &dyn MemorySource, reading: Reading) -> Reading {
    let free_bytes = reading.free_bytes.saturating_sub(promised_bytes(device));
    Reading { free_bytes, ..reading }
}

/// Bytes that the owner will allocate; the promise ends when dropped.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{device, memory::Host};
///
/// let mut promise = device::promise(Host::shared(), 3 << 20);
/// let buffer = vec![0_u8; 2 << 20];
/// promise.set(1 << 20); // the rest
/// assert!(device::promised_bytes(Host::shared()) >= 1 << 20);
/// # drop(buffer);
/// ```
#[must_use = "the promise is taken back when this is dropped"]
#[derive(Debug)]
pub struct Promise {
    device: Device,
    bytes: u64,
    /// The process that made the promise: a child of `fork` has none of its parent's promises.
    process: u32,
}

impl Promise {
    /// Changes the promise to `bytes`. Returns the bytes that all others have promised at that moment.
    ///
    /// If two promise at the same time, at least one sees the other's bytes. So work reads the free bytes, promises
    /// the bytes of its plan, and takes a leaner plan if these and the returned bytes exceed the free bytes.
    pub fn set(&mut self, bytes: u64) -> u64 {
        if self.process != process::id() {
            return 0;
        }
        let promised = self.device.queue.promised.get();
        let added = bytes.wrapping_sub(self.bytes);
        // Wraps modulo 2^64, as atomic sums do; no device has that many bytes.
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
