//! Limits that allocators refuse to exceed.

use std::sync::{Mutex, PoisonError};

use crate::ffi;

/// Limits the bytes that tensors hold on a device (the CPU or CUDA) until it is dropped.
///
/// Several limits of a device may overlap and end in any order: the smallest is the current one.
#[derive(Debug)]
pub(crate) struct AllocatorLimit {
    device: tch::Device,
    bytes: u64,
}

impl AllocatorLimit {
    pub(crate) fn new(device: tch::Device, bytes: u64) -> Self {
        change(device, |living| living.push((device, bytes)));
        Self { device, bytes }
    }
}

impl Drop for AllocatorLimit {
    fn drop(&mut self) {
        change(self.device, |living| {
            let this = living.iter().position(|one| *one == (self.device, self.bytes));
            living.swap_remove(this.expect("it lives until now"));
        });
    }
}

/// Lets allocations that lack memory on this device evict storages from now on.
pub(crate) fn relieve(device: tch::Device) {
    change(device, |_| ());
}

/// Changes the list of limits and, under its lock, makes the smallest limit of the device the current one.
fn change(device: tch::Device, change: impl FnOnce(&mut Vec<(tch::Device, u64)>)) {
    static LIVING: Mutex<Vec<(tch::Device, u64)>> = Mutex::new(Vec::new());
    let mut living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    change(&mut living);
    let least = living.iter().filter(|(of, _)| *of == device).map(|(_, bytes)| *bytes).min();
    match device {
        tch::Device::Cpu => ffi::toma_cpu_set_budget(least.unwrap_or(u64::MAX)),
        tch::Device::Cuda(index) => ffi::relieve_cuda(index, least.unwrap_or(u64::MAX)),
        _ => (),
    }
}
