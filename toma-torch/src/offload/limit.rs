//! Bytes of a device that may be in use, and the allocator that refuses to exceed them.

use std::sync::{Mutex, PoisonError};

use crate::ffi;
use crate::memory::cpu;

/// Ends when dropped.
#[derive(Debug)]
pub(crate) enum Limit {
    Cpu(#[expect(dead_code, reason = "it holds as long as it lives")] cpu::Budget),
    Cuda(#[expect(dead_code, reason = "it holds as long as it lives")] CudaBudget),
    /// Held by what evicts alone.
    Soft,
}

impl Limit {
    /// Of an allocator that can refuse, if that of the device can.
    pub(crate) fn hard(device: tch::Device, bytes: u64) -> Self {
        match device {
            tch::Device::Cpu => Self::Cpu(cpu::Budget::new(bytes)),
            tch::Device::Cuda(index) => Self::Cuda(CudaBudget::new(index, bytes)),
            _ => Self::Soft,
        }
    }
}

/// As [`cpu::Budget`]: several may live, and the smallest holds.
#[derive(Debug)]
pub(crate) struct CudaBudget {
    device: usize,
    bytes: u64,
}

impl CudaBudget {
    fn new(device: usize, bytes: u64) -> Self {
        change_budgets(device, |living| living.push((device, bytes)));
        Self { device, bytes }
    }
}

impl Drop for CudaBudget {
    fn drop(&mut self) {
        change_budgets(self.device, |living| {
            let this = living.iter().position(|one| *one == (self.device, self.bytes));
            living.swap_remove(this.expect("it lives until now"));
        });
    }
}

/// Allocations that lack memory on this device let storages leave from now on.
pub(crate) fn relieve(device: tch::Device) {
    if let tch::Device::Cuda(index) = device {
        change_budgets(index, |_| ());
    }
}

/// Changes the budgets that live, and puts a device's smallest in force before another thread can change them.
fn change_budgets(device: usize, change: impl FnOnce(&mut Vec<(usize, u64)>)) {
    static LIVING: Mutex<Vec<(usize, u64)>> = Mutex::new(Vec::new());
    let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut living);
    let of_device = living.iter().filter(|(of, _)| *of == device);
    ffi::relieve_cuda(device, of_device.map(|(_, bytes)| *bytes).min().unwrap_or(u64::MAX));
}
