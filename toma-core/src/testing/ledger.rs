//! The accounts of a fake device, and the error when its budget does not suffice.

use std::error::Error;
use std::fmt;

use crate::classify::OutOfMemory;

/// The account of a device.
///
/// `allocated <= budget` after each allocation that succeeds, and `allocated <= reserved` always.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) budget: u64,
    pub(super) allocated: u64,
    pub(super) reserved: u64,
    pub(super) peak: u64,
    pub(super) allocations: u64,
    pub(super) failures: u64,
    pub(super) keeps_freed: bool,
}

/// The error of a [`FakeDevice`](super::FakeDevice) whose budget does not suffice.
///
/// Its [`source`](Error::source) is an [`OutOfMemory`].
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::testing::FakeDevice;
///
/// let error = FakeDevice::new(1000).alloc(1500).unwrap_err();
/// assert_eq!((error.requested_bytes, error.free_bytes, error.budget_bytes), (1500, 1000, 1000));
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeOutOfMemory {
    /// Bytes requested.
    pub requested_bytes: u64,
    /// Bytes that could have been allocated.
    pub free_bytes: u64,
    /// The whole budget of the device, in bytes.
    pub budget_bytes: u64,
    cause: OutOfMemory,
}

impl Account {
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), FakeOutOfMemory> {
        let allocated = self.allocated.checked_add(bytes).filter(|allocated| *allocated <= self.budget);
        let Some(allocated) = allocated else { return Err(self.refuse(bytes)) };
        self.allocated = allocated;
        self.reserved = self.reserved.max(allocated);
        self.peak = self.peak.max(allocated);
        self.allocations += 1;
        Ok(())
    }

    /// Cached memory is released first, as in tensor libraries, so that the free bytes in the error are those that
    /// could have been allocated.
    fn refuse(&mut self, requested_bytes: u64) -> FakeOutOfMemory {
        self.failures += 1;
        self.release();
        let cause = OutOfMemory::new(Some(requested_bytes));
        FakeOutOfMemory { requested_bytes, free_bytes: self.free(), budget_bytes: self.budget, cause }
    }

    pub(super) fn give(&mut self, bytes: u64) {
        self.allocated -= bytes;
        if self.keeps_freed {
            self.fit();
        } else {
            self.release();
        }
    }

    pub(super) fn set_budget(&mut self, bytes: u64) {
        self.budget = bytes;
        self.fit();
    }

    /// Releases cached bytes beyond a budget that was lowered.
    fn fit(&mut self) {
        self.reserved = self.reserved.min(self.budget).max(self.allocated);
    }

    pub(super) fn release(&mut self) {
        self.reserved = self.allocated;
    }

    pub(super) fn free(&self) -> u64 {
        self.budget.saturating_sub(self.reserved)
    }

    /// Bytes that an allocation could get: free and cached memory.
    pub(super) fn available(&self) -> u64 {
        self.budget.saturating_sub(self.allocated)
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
