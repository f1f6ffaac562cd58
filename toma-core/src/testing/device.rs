//! A device that only counts.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::classify::OutOfMemory;
use crate::memory::{MemorySource, Reading};

/// A device with a budget of bytes, which counts what is allocated and holds no data.
///
/// It stands in for a GPU in tests: it runs out of memory at exactly the same byte on every machine
/// and in every run. There is no fragmentation: what fits into the budget can be allocated. Clones
/// are the same device, from any thread.
///
/// ```
/// use toma_core::testing::FakeDevice;
///
/// let device = FakeDevice::new(8192);
/// let weights = device.alloc(7168)?;
/// let error = device.alloc(4096).unwrap_err();
/// assert_eq!(error.to_string(), "fake device out of memory: tried to allocate 4096 bytes, 1024 of 8192 free");
///
/// drop(weights);
/// assert!(device.alloc(4096).is_ok());
/// # Ok::<(), toma_core::testing::FakeOutOfMemory>(())
/// ```
#[derive(Clone, Debug)]
pub struct FakeDevice {
    shared: Arc<Shared>,
}

/// Bytes allocated on a [`FakeDevice`], free again when it is dropped.
#[must_use = "the bytes are free again when the buffer is dropped"]
#[derive(Debug)]
pub struct FakeBuffer {
    device: FakeDevice,
    bytes: u64,
}

/// The error of a [`FakeDevice`] whose budget does not suffice.
///
/// Its [`source`](Error::source) is an [`OutOfMemory`].
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeOutOfMemory {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// Bytes that could have been allocated.
    pub free_bytes: u64,
    /// Bytes the device had in all.
    pub budget_bytes: u64,
    cause: OutOfMemory,
}

#[derive(Debug)]
struct Shared {
    name: String,
    /// One lock instead of an atomic for each figure, so that figures read together fit together.
    ledger: Mutex<Ledger>,
}

/// The books of a device.
///
/// `allocated <= budget` when anything was allocated last, and `allocated <= reserved` always.
#[derive(Debug)]
struct Ledger {
    budget: u64,
    allocated: u64,
    reserved: u64,
    peak: u64,
    allocations: u64,
    failures: u64,
    keeps_freed: bool,
}

impl FakeDevice {
    /// A device on which `budget_bytes` can be allocated.
    ///
    /// Its name as a memory source is its own: `fake:0`, `fake:1`, and so on.
    pub fn new(budget_bytes: u64) -> Self {
        static DEVICES: AtomicU64 = AtomicU64::new(0);
        let name = format!("fake:{}", DEVICES.fetch_add(1, Ordering::Relaxed));
        Self { shared: Arc::new(Shared { name, ledger: Mutex::new(Ledger::new(budget_bytes)) }) }
    }

    /// The same device, but freed bytes stay reserved as cached memory until an allocation uses
    /// them, until one fails, or until [`MemorySource::release_cached_memory`], as tensor libraries
    /// do it.
    ///
    /// ```
    /// use toma_core::memory::MemorySource;
    /// use toma_core::testing::FakeDevice;
    ///
    /// let device = FakeDevice::new(1000).with_cached_memory();
    /// drop(device.alloc(600)?);
    /// assert_eq!((device.allocated_bytes(), device.free_bytes()), (0, 400));
    ///
    /// device.release_cached_memory();
    /// assert_eq!(device.free_bytes(), 1000);
    /// # Ok::<(), toma_core::testing::FakeOutOfMemory>(())
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

    /// Gives the device another budget, as when another program takes or frees memory.
    ///
    /// It may be below what is allocated: then every allocation fails until enough is freed.
    pub fn set_budget(&self, budget_bytes: u64) {
        let mut ledger = self.ledger();
        ledger.budget = budget_bytes;
        ledger.reserved = ledger.reserved.min(budget_bytes).max(ledger.allocated);
    }

    /// Makes what is allocated now the peak.
    pub fn reset_peak(&self) {
        let mut ledger = self.ledger();
        ledger.peak = ledger.allocated;
    }

    /// Bytes in living buffers.
    pub fn allocated_bytes(&self) -> u64 {
        self.ledger().allocated
    }

    /// Most bytes in living buffers at one time, since the start or the last
    /// [`reset_peak`](Self::reset_peak).
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

    /// Bytes that can be allocated in all.
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

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Nothing panics while it is held, and a buffer dropped in a panic must not panic again.
        self.shared.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemorySource for FakeDevice {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn read(&self) -> io::Result<Reading> {
        let ledger = self.ledger();
        Ok(Reading::new(ledger.free(), ledger.budget))
    }

    fn release_cached_memory(&self) {
        self.ledger().release();
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

impl Ledger {
    fn new(budget: u64) -> Self {
        let keeps_freed = false;
        Self { budget, allocated: 0, reserved: 0, peak: 0, allocations: 0, failures: 0, keeps_freed }
    }

    fn take(&mut self, bytes: u64) -> Result<(), FakeOutOfMemory> {
        let allocated = self.allocated.checked_add(bytes).filter(|allocated| *allocated <= self.budget);
        let Some(allocated) = allocated else { return Err(self.refuse(bytes)) };
        self.allocated = allocated;
        self.reserved = self.reserved.max(allocated);
        self.peak = self.peak.max(allocated);
        self.allocations += 1;
        Ok(())
    }

    /// Cached memory goes first, as with tensor libraries, so that what the error calls free is
    /// what could have been allocated.
    fn refuse(&mut self, requested_bytes: u64) -> FakeOutOfMemory {
        self.failures += 1;
        self.release();
        let cause = OutOfMemory::new(Some(requested_bytes));
        FakeOutOfMemory { requested_bytes, free_bytes: self.free(), budget_bytes: self.budget, cause }
    }

    fn give(&mut self, bytes: u64) {
        self.allocated -= bytes;
        if self.keeps_freed {
            // Reserved beyond a budget that was lowered meanwhile: nothing to keep there.
            self.reserved = self.reserved.min(self.budget).max(self.allocated);
        } else {
            self.release();
        }
    }

    fn release(&mut self) {
        self.reserved = self.allocated;
    }

    fn free(&self) -> u64 {
        self.budget.saturating_sub(self.reserved)
    }
}

impl fmt::Display for FakeOutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requested_bytes, free_bytes, budget_bytes, .. } = self;
        write!(f, "fake device out of memory: tried to allocate {requested_bytes} bytes, ")?;
        write!(f, "{free_bytes} of {budget_bytes} free")
    }
}

impl Error for FakeOutOfMemory {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}
