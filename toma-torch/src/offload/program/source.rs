//! A manager as the memory source of loops.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use toma_core::device::{Hooked, on_release};
use toma_core::memory::{MemorySource, Reading, Usage};

use super::manager::{Entered, Manager};
use crate::error::Error;
use crate::ffi::DeviceId;
use crate::memory::Device;
use crate::offload::moves::operators;
use crate::offload::moves::registry;
use crate::offload::moves::state::{Limit, ManagerState};

/// Without a budget, one part in so many of the free bytes is left to other programs, and to memory that libtorch takes
/// in addition to tensors.
const SPARED: u64 = 20;

/// Default budget: the allocated plus the free bytes, less 5 % of the free bytes. `None` if these cannot be read.
fn default_budget(device: &dyn MemorySource, allocated_bytes: u64) -> Option<u64> {
    let free_bytes = device.read().ok()?.free_bytes;
    Some(allocated_bytes.saturating_add(free_bytes - free_bytes / SPARED))
}

/// Bytes that could be evicted count as free, and the peak covers only bytes in use.
///
/// So policies find the largest size that runs, instead of the largest size that stays on the device.
impl MemorySource for Manager {
    fn name(&self) -> &str {
        self.shared().device.name()
    }

    fn read(&self) -> io::Result<Reading> {
        self.shared().read_memory()
    }

    fn release_cached_memory(&self) {
        self.shared().device.release_cached_memory();
    }

    fn usage(&self) -> Option<Usage> {
        let shared = self.shared();
        let held = shared.allocated_bytes().saturating_sub(shared.idle_bytes());
        let peak = shared.counts.peak_used_bytes.load(Ordering::Relaxed);
        Some(Usage::new(held, held.max(peak)))
    }

    fn reset_peak(&self) {
        self.shared().counts.peak_used_bytes.store(0, Ordering::Relaxed);
    }

    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

/// Free bytes of a device, including those that its manager, if it has one, could free.
pub(crate) fn free_bytes(device: &Device) -> io::Result<u64> {
    let manager = registry::of(DeviceId::of(device.device()));
    let reading = manager.map_or_else(|| device.read(), |shared| shared.read_memory())?;
    Ok(reading.free_bytes)
}

impl ManagerState {
    /// Sets the default budget of an accelerator. A CPU has a [`cpu::Budget`](crate::cpu::Budget), or evicts nothing.
    pub(crate) fn limit_by_default(&self) {
        if self.device.device() == tch::Device::Cpu || self.has_limit() {
            return;
        }
        if let Some(bytes) = default_budget(&self.device, self.allocated_bytes()) {
            self.set_limit(Limit::Soft, bytes);
        }
    }

    fn read_memory(&self) -> io::Result<Reading> {
        let (device, idle) = (self.device.read()?, self.idle_bytes());
        let limit = self.limit_bytes().min(device.total_bytes);
        let held = self.allocated_bytes().saturating_sub(idle);
        let free = device.free_bytes.saturating_add(idle);
        Ok(Reading::new(free.min(limit.saturating_sub(held)), limit))
    }

    /// Bytes on the device that could be evicted now.
    fn idle_bytes(&self) -> u64 {
        let table = self.table();
        table.entries.values().filter(|entry| entry.may_be_evicted()).map(|entry| entry.bytes).sum()
    }
}

/// Guard while which storages are evicted only after a loop has run out of memory.
///
/// ```
/// use toma_core::{GlobalCache, execute};
/// use toma_torch::{Device, offload::Manager};
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu));
/// let _idle_until_needed = manager.on_pressure()?;
/// execute::with::<GlobalCache>().device(&manager).range(0..64, 64, |_, _| ());
/// assert_eq!(manager.report().offloads, 0); // memory sufficed
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[must_use = "evictions wait for memory pressure until this guard is dropped"]
#[derive(Debug)]
pub struct OnPressure {
    entered: Entered,
    /// True if an outer guard exists, whose effect continues.
    is_inner: bool,
    _hooked: Hooked,
}

impl Drop for OnPressure {
    fn drop(&mut self) {
        if !self.is_inner {
            self.entered.manager().shared().is_patient.store(false, Ordering::Relaxed);
        }
    }
}

impl Manager {
    /// Evicts nothing until a loop of this process runs out of memory. Then everything idle is evicted, and the same
    /// size is tried again before any smaller one. From then on storages are evicted whenever room is needed.
    ///
    /// This thread enters the manager, because evicted storages must be fetched for its operators.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn on_pressure(&self) -> Result<OnPressure, Error> {
        let entered = self.enter()?;
        let is_inner = self.shared().is_patient.swap(true, Ordering::Relaxed);
        let shared = Arc::clone(self.shared());
        let name = self.name().to_owned();
        let hooked = on_release(move |pressure| {
            let is_ours = pressure.device == name || (pressure.device == "host" && name == "cpu");
            operators::end_lent_pins();
            is_ours && shared.is_patient.swap(false, Ordering::Relaxed) && shared.make_room(u64::MAX) > 0
        });
        Ok(OnPressure { entered, is_inner, _hooked: hooked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device with so many bytes free; `None` if it cannot be read.
    #[derive(Debug)]
    struct Free(Option<u64>);

    impl MemorySource for Free {
        fn name(&self) -> &'static str {
            "a device"
        }

        fn read(&self) -> io::Result<Reading> {
            let free = self.0.ok_or_else(|| io::Error::other("it is gone"))?;
            Ok(Reading::new(free, 2 * free))
        }
    }

    #[test]
    fn the_default_budget_spares_a_twentieth_of_the_free_bytes() {
        assert_eq!(default_budget(&Free(Some(1000)), 50), Some(50 + 950));
        assert_eq!(default_budget(&Free(Some(0)), 50), Some(50));
        assert_eq!(default_budget(&Free(Some(u64::MAX / 2)), u64::MAX), Some(u64::MAX));
        assert_eq!(default_budget(&Free(None), 50), None);
    }
}
