//! Devices of candle as memory sources.

use std::io;

use candle_core::{Device, DeviceLocation};
use toma_core::memory::{Host, MemorySource};

/// Returns the memory of a device: the host's, or that of a CUDA device.
///
/// ```
/// use candle_core::Device;
///
/// let memory = toma_candle::memory(&Device::Cpu)?;
/// assert_eq!(memory.name(), "host");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// For a CUDA device, free bytes are the driver's free bytes and those that candle's memory pool holds back: see
/// [`toma_cuda::Device`].
///
/// # Errors
/// The errors of [`toma_cuda::Device::new`]; of kind [`Unsupported`](io::ErrorKind::Unsupported) for Metal, whose
/// free memory is unknown: leave out the option `device` there.
pub fn memory(device: &Device) -> io::Result<Box<dyn MemorySource + Send>> {
    match device.location() {
        DeviceLocation::Cpu => Ok(Box::new(Host::shared())),
        DeviceLocation::Cuda { gpu_id } => Ok(Box::new(toma_cuda::Device::new(gpu_id)?)),
        DeviceLocation::Metal { gpu_id } => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("metal:{gpu_id}: its free memory is not known, leave the option `device` out"),
        )),
    }
}
