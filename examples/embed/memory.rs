//! The memory for tensors: a budget on the CPU, the free memory on a GPU.

use std::cell::Cell;
use std::fmt;

use bytesize::ByteSize;
use tch::Device;
use toma::memory::{Host, MemorySource};
use toma::torch::cpu::Budget;
use toma::torch::offload::Manager;

use crate::Result;

pub(crate) struct Memory {
    device: toma::torch::Device,
    /// Manager that stays within the budget by evictions.
    manager: Option<Manager>,
    /// Held while the program runs; `None` on a GPU, which has a limit by nature.
    _budget: Option<Budget>,
    /// Bytes that tensors may take, the model's included.
    bytes: ByteSize,
    /// Bytes of the model.
    pub(crate) model_bytes: u64,
    /// The most bytes so far; policies that measure reset the device's own peak.
    peak_bytes: Cell<u64>,
}

impl Memory {
    /// Sets the limit. Called when the model and nothing else is loaded.
    pub(crate) fn limit(device: Device, budget: Option<ByteSize>) -> Result<Self> {
        let device = toma::torch::Device::new(device);
        let model_bytes = device.stats()?.allocated_bytes;
        let on_cpu = device.device() == Device::Cpu;
        let bytes = match budget {
            Some(bytes) if on_cpu => bytes,
            Some(bytes) => {
                return Err(
                    format!("budget {bytes}: a GPU has a limit of its own, leave --budget out").into()
                );
            }
            None if on_cpu => ByteSize(model_bytes + Host::shared().read()?.free_bytes / 2),
            None => ByteSize(model_bytes + device.read()?.free_bytes),
        };
        if bytes.0 < model_bytes {
            return Err(format!("budget {} bytes: the model alone needs {model_bytes} bytes", bytes.0).into());
        }
        device.reset_peaks()?;
        let (budget, peak_bytes) = (on_cpu.then(|| Budget::new(bytes.0)), Cell::new(model_bytes));
        Ok(Self { device, manager: None, _budget: budget, bytes, model_bytes, peak_bytes })
    }

    /// Uses the manager's budget, because the model is not always on the device.
    pub(crate) fn offloaded(device: Device, bytes: ByteSize, manager: &Manager) -> Result<Self> {
        let device = toma::torch::Device::new(device);
        device.reset_peaks()?;
        let manager = Some(manager.clone());
        Ok(Self { device, manager, _budget: None, bytes, model_bytes: 0, peak_bytes: Cell::default() })
    }

    pub(crate) fn device(&self) -> &dyn MemorySource {
        self.manager.as_ref().map_or(&self.device, |manager| manager)
    }

    /// Records the peak of an attempt, before the next one resets it.
    pub(crate) fn note_peak(&self) {
        if let Ok(stats) = self.device.stats() {
            self.peak_bytes.set(self.peak_bytes.get().max(stats.peak_allocated_bytes));
        }
    }

    /// The most bytes that tensors held in or after an attempt, the model's included.
    pub(crate) fn peak(&self) -> ByteSize {
        ByteSize(self.peak_bytes.get())
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.device.device() == Device::Cpu { "budget" } else { "memory" };
        write!(f, "{name} {} bytes ({})", self.bytes.0, self.bytes)
    }
}
