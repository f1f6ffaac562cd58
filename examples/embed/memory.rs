//! The memory there is for tensors: a budget on the CPU, what is free on a GPU.

use std::cell::Cell;
use std::fmt;

use tch::Device;
use toma::memory::{self, MemorySource as _};
use toma::torch::cpu::{self, Budget};

use crate::Result;
use crate::summary::mebibytes;

pub(crate) struct Memory {
    device: toma::torch::Device,
    /// Held while the program runs; `None` on a GPU, which has a limit by nature.
    _budget: Option<Budget>,
    /// Bytes that tensors may take, the model's included.
    bytes: u64,
    /// Bytes of the model.
    pub(crate) model_bytes: u64,
    /// The most bytes before anybody else has reset the peak, as policies that measure do.
    noted_peak: Cell<u64>,
}

impl Memory {
    /// Says early what cannot work, before files are read for nothing.
    pub(crate) fn check(device: Device, budget: Option<u64>) -> Result<()> {
        let Device::Cuda(index) = device else { return Ok(()) };
        let devices = tch::Cuda::device_count();
        if i64::try_from(index)? >= devices {
            return Err(format!("device cuda:{index}: libtorch sees {devices} CUDA devices").into());
        }
        if let Some(bytes) = budget {
            return Err(
                format!("budget {bytes} bytes: a GPU has a limit of its own, leave --budget out").into()
            );
        }
        Ok(())
    }

    /// The limit from now on, when the model and nothing else is loaded.
    pub(crate) fn limit(device: Device, budget: Option<u64>) -> Result<Self> {
        let device = toma::torch::Device::new(device);
        let model_bytes = device.stats()?.allocated_bytes;
        if device.device() != Device::Cpu {
            let bytes = model_bytes + device.read()?.free_bytes;
            return Ok(Self { device, _budget: None, bytes, model_bytes, noted_peak: Cell::new(0) });
        }
        let bytes = match budget {
            Some(bytes) => bytes,
            None => model_bytes + memory::host()?.free_bytes / 2,
        };
        if bytes < model_bytes {
            return Err(format!("budget {bytes} bytes: the model alone needs {model_bytes} bytes").into());
        }
        let budget = Some(Budget::new(bytes));
        Ok(Self { device, _budget: budget, bytes, model_bytes, noted_peak: Cell::new(0) })
    }

    pub(crate) const fn device(&self) -> &toma::torch::Device {
        &self.device
    }

    /// Lets the peak begin again.
    pub(crate) fn reset_peak(&self) -> Result<()> {
        self.noted_peak.set(0);
        Ok(self.device.reset_peaks()?)
    }

    /// Keeps the peak of an attempt, before the next one begins with a peak of its own.
    pub(crate) fn note_peak(&self) {
        if let Ok(peak) = self.peak_bytes() {
            self.noted_peak.set(peak);
        }
    }

    /// The most bytes that tensors have held, the model's included.
    pub(crate) fn peak_bytes(&self) -> Result<u64> {
        Ok(self.device.stats()?.peak_allocated_bytes.max(self.noted_peak.get()))
    }
}

/// Counts from the first tensor on; later ones could not be told from the model.
pub(crate) fn count() {
    cpu::count();
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.device.device() == Device::Cpu { "budget" } else { "memory" };
        write!(f, "{name} {} bytes ({:.1} MiB)", self.bytes, mebibytes(self.bytes))
    }
}
