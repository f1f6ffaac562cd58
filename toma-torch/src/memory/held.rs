//! Limits that allocators refuse to exceed.

use std::sync::{Mutex, PoisonError};

use crate::ffi;

/// Bytes of a device that tensors hold at most, until this is dropped; of the CPU and of CUDA.
///
/// Several may live at the same time and end in any order: the smallest of a device holds.
#[derive(Debug)]
pub(crate) struct Held {
    device: tch::Device,
    bytes: u64,
}

impl Held {
    pub(crate) fn new(device: tch::Device, bytes: u64) -> Self {
        change(device, |living| living.push((device, bytes)));
        Self { device, bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        change(self.device, |living| {
            let this = living.iter().position(|one| *one == (self.device, self.bytes));
            living.swap_remove(this.expect("it lives until now"));
        });
    }
}

/// Allocations that lack memory on this device let storages leave from now on.
pub(crate) fn relieve(device: tch::Device) {
    change(device, |_| ());
}

/// Changes the limits that live, and puts a device's smallest in force before another thread can change them.
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
