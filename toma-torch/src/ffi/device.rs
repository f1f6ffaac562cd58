//! Memory of devices.

use super::{RawError, checked};
use crate::error::Error;
use crate::stats::Stats;

// Sound to call with any numbers, from any thread: the shim checks what it is given.
unsafe extern "C" {
    safe fn toma_device_stats(id: DeviceId, out: &mut Stats, error: &mut RawError) -> i32;
    safe fn toma_device_memory(id: DeviceId, out: &mut [u64; 2], error: &mut RawError) -> i32;
    safe fn toma_device_release(id: DeviceId, error: &mut RawError) -> i32;
    safe fn toma_device_reset_peak(id: DeviceId, error: &mut RawError) -> i32;
}

/// A device as the shim knows it: the number of its kind in c10, and its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // `toma_device` of the shim.
pub(crate) struct DeviceId {
    kind: i32,
    index: i32,
}

impl DeviceId {
    pub(crate) fn of(device: tch::Device) -> Self {
        // The numbers of c10::DeviceType, which never change: files hold them.
        let (kind, index) = match device {
            tch::Device::Cpu => (0, 0),
            // An index beyond any device's is no device.
            tch::Device::Cuda(index) => (1, i32::try_from(index).unwrap_or(-1)),
            tch::Device::Vulkan => (10, 0),
            tch::Device::Mps => (13, 0),
        };
        Self { kind, index }
    }

    /// The device as tch names it; the CPU where tch has no name.
    pub(crate) fn device(self) -> tch::Device {
        match self.kind {
            1 => tch::Device::Cuda(usize::try_from(self.index).unwrap_or_default()),
            10 => tch::Device::Vulkan,
            13 => tch::Device::Mps,
            _ => tch::Device::Cpu,
        }
    }

    /// Kind and index as events tell them.
    pub(crate) fn numbers(self) -> (u32, u32) {
        (self.kind.unsigned_abs(), self.index.unsigned_abs())
    }
}

pub(crate) fn device_stats(id: DeviceId) -> Result<Stats, Error> {
    let mut stats = Stats::default();
    checked(|error| toma_device_stats(id, &mut stats, error))?;
    Ok(stats)
}

/// Free and total bytes, as the driver says.
pub(crate) fn device_memory(id: DeviceId) -> Result<[u64; 2], Error> {
    let mut memory = [0; 2];
    checked(|error| toma_device_memory(id, &mut memory, error))?;
    Ok(memory)
}

pub(crate) fn release_device(id: DeviceId) -> Result<(), Error> {
    checked(|error| toma_device_release(id, error))
}

pub(crate) fn reset_device_peak(id: DeviceId) -> Result<(), Error> {
    checked(|error| toma_device_reset_peak(id, error))
}
