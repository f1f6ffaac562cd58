//! A device that only counts bytes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::FakeOutOfMemory;
use super::ledger::Account;
use crate::memory::{MemorySource, Reading, Usage};

/// A device with a budget of bytes, which counts allocations and holds no data.
///
/// It stands in for a GPU in tests: it runs out of memory at exactly the same byte on every machine and in every run.
/// There is no fragmentation: any request within the budget succeeds. Clones are the same device, on any thread.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::testing::FakeDevice;
///
/// let device = FakeDevice::new(8192);
/// let weights = device.alloc(7168)?;
/// let error = device.alloc(4096).unwrap_err();
/// assert_eq!(error.to_string(), "fake device out of memory: tried to allocate 4096 bytes, 1024 of 8192 free");
///
/// drop(weights);
/// assert!(device.alloc(4096).is_ok());
/// # Ok::<(), toma::testing::FakeOutOfMemory>(())
/// ```
#[derive(Clone, Debug)]
pub struct FakeDevice {
    shared: Arc<Inner>,
}

/// Bytes allocated on a [`FakeDevice`], freed when it is dropped.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::testing::FakeDevice;
///
/// let device = FakeDevice::new(1000);
/// let buffer = device.alloc(600)?;
/// assert_eq!(device.free_bytes(), 400);
/// drop(buffer);
/// assert_eq!(device.free_bytes(), 1000);
/// # Ok::<(), toma::testing::FakeOutOfMemory>(())
/// ```
#[must_use = "the bytes are free again when the buffer is dropped"]
#[derive(Debug)]
pub struct FakeBuffer {
    device: FakeDevice,
    bytes: u64,
}

#[derive(Debug)]
struct Inner {
    name: String,
    /// One lock instead of an atomic for each figure, so that figures read together fit together.
    ledger: Mutex<Account>,
}

impl FakeDevice {
    /// Creates a device on which `budget_bytes` can be allocated.
    ///
    /// Each device has a name of its own as a memory source: `fake:0`, `fake:1`, and so on.
    pub fn new(budget_bytes: u64) -> Self {
        static DEVICES: AtomicU64 = AtomicU64::new(0);
        let name = format!("fake:{}", DEVICES.fetch_add(1, Ordering::Relaxed));
        let ledger = Account { budget: budget_bytes, ..Account::default() };
        Self { shared: Arc::new(Inner { name, ledger: Mutex::new(ledger) }) }
    }

    /// Makes freed bytes stay reserved as cached memory until an allocation uses them, until one fails, or until
    /// [`MemorySource::release_cached_memory`], as tensor libraries do.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::memory::MemorySource;
    /// use toma::testing::FakeDevice;
    ///
    /// let device = FakeDevice::new(1000).with_cached_memory();
    /// drop(device.alloc(600)?);
    /// assert_eq!((device.allocated_bytes(), device.free_bytes()), (0, 400));
    ///
    /// device.release_cached_memory();
    /// assert_eq!(device.free_bytes(), 1000);
    /// # Ok::<(), toma::testing::FakeOutOfMemory>(())
    /// ```
    #[must_use]
    pub fn with_cached_memory(self) -> Self {
        self.ledger().keeps_freed = true;
        self
    }

    /// Allocates `bytes`.
    ///
    /// # Errors
    /// When less than `bytes` of the budget are left; nothing is allocated then.
    pub fn alloc(&self, bytes: u64) -> Result<FakeBuffer, FakeOutOfMemory> {
        self.ledger().take(bytes)?;
        Ok(FakeBuffer { device: self.clone(), bytes })
    }

    /// Gives the device another budget, as if another program took or freed memory.
    ///
    /// The budget may be below the allocated bytes: then every allocation fails until enough is freed.
    pub fn set_budget(&self, budget_bytes: u64) {
        self.ledger().set_budget(budget_bytes);
    }

    /// Sets the peak to the bytes allocated now.
    pub fn reset_peak(&self) {
        let mut ledger = self.ledger();
        ledger.peak = ledger.allocated;
    }

    /// Bytes in live buffers.
    pub fn allocated_bytes(&self) -> u64 {
        self.ledger().allocated
    }

    /// Most bytes in live buffers at one time, since the start or the last [`reset_peak`](Self::reset_peak).
    pub fn peak_allocated_bytes(&self) -> u64 {
        self.ledger().peak
    }

    /// Allocated bytes and [cached memory](Self::with_cached_memory) together.
    pub fn reserved_bytes(&self) -> u64 {
        self.ledger().reserved
    }

    /// Bytes of the budget that are not reserved.
    pub fn free_bytes(&self) -> u64 {
        self.ledger().free()
    }

    /// The whole budget, in bytes.
    pub fn budget_bytes(&self) -> u64 {
        self.ledger().budget
    }

    /// Number of allocations that succeeded so far.
    pub fn allocations(&self) -> u64 {
        self.ledger().allocations
    }

    /// Number of allocations that failed so far.
    pub fn failures(&self) -> u64 {
        self.ledger().failures
    }

    fn ledger(&self) -> MutexGuard<'_, Account> {
        // Nothing panics while the lock is held, and a buffer dropped in a panic must not panic again.
        self.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemorySource for FakeDevice {
    fn name(&self) -> &str {
        &self.shared.name
    }

    /// Cached memory can be allocated by this program, so it counts as free here.
    fn read(&self) -> io::Result<Reading> {
        let ledger = self.ledger();
        Ok(Reading::new(ledger.available(), ledger.budget))
    }

    fn release_cached_memory(&self) {
        self.ledger().release();
    }

    fn usage(&self) -> Option<Usage> {
        let ledger = self.ledger();
        Some(Usage::new(ledger.allocated, ledger.peak))
    }

    fn reset_peak(&self) {
        Self::reset_peak(self);
    }

    /// Zero: a test sees the figures of the moment, however fast it runs.
    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

impl FakeBuffer {
    /// Bytes in this buffer.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for FakeBuffer {
    fn drop(&mut self) {
        self.device.ledger().give(self.bytes);
    }
}
