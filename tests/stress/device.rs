//! A fake device with a second count of its bytes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use toma::testing::{FakeBuffer, FakeDevice, FakeOutOfMemory};

use crate::world::lock;

/// A fake device whose allocated bytes are never observed above its budget.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) fake: FakeDevice,
    /// The largest budget so far. Locked while the budget changes and during every allocation, so that in between
    /// memory can only become free.
    largest: Mutex<u64>,
    living: AtomicU64,
}

/// Bytes of a [`Device`].
#[derive(Debug)]
pub(crate) struct Held<'a> {
    device: &'a Device,
    buffer: FakeBuffer,
}

impl Device {
    pub(crate) fn new(fake: FakeDevice) -> Self {
        let largest = Mutex::new(fake.budget_bytes());
        Self { fake, largest, living: AtomicU64::new(0) }
    }

    pub(crate) fn set_budget(&self, bytes: u64) {
        let mut largest = lock(&self.largest);
        *largest = (*largest).max(bytes);
        self.fake.set_budget(bytes);
    }

    pub(crate) fn alloc(&self, bytes: u64) -> Result<Held<'_>, FakeOutOfMemory> {
        let largest = lock(&self.largest);
        let budget = self.fake.budget_bytes();
        let result = self.fake.alloc(bytes);
        match &result {
            Ok(_) => {
                let living = self.living.fetch_add(bytes, SeqCst) + bytes;
                let (allocated, peak) = (self.fake.allocated_bytes(), self.fake.peak_allocated_bytes());
                assert!(living <= budget, "{living} bytes live under a budget of {budget}");
                assert!(allocated <= budget, "{allocated} bytes are allocated under a budget of {budget}");
                assert!(peak <= *largest, "the peak is {peak}, and no budget was above {largest}");
            }
            Err(refused) => {
                let received = (refused.requested_bytes, refused.budget_bytes);
                assert_eq!(received, (bytes, budget));
                assert!(refused.free_bytes < bytes, "{bytes} bytes were refused for no reason");
            }
        }
        drop(largest);
        result.map(|buffer| Held { device: self, buffer })
    }

    /// Asserts that nothing is left allocated.
    pub(crate) fn check_empty(&self) {
        assert_eq!((self.living.load(SeqCst), self.fake.allocated_bytes()), (0, 0), "bytes are lost");
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.device.living.fetch_sub(self.buffer.bytes(), SeqCst);
    }
}
