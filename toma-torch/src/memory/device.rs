use std::io;
use std::time::Duration;

use tch::Tensor;
use toma_core::memory::{Host, MemorySource, Reading, Usage};

use super::cpu;
use super::level::{self, Level};
use crate::error::Error;
use crate::ffi::{self, DeviceId};
use crate::stats::Stats;

/// A device of libtorch as a memory source.
///
/// Free bytes are those that an allocation could get: the driver's free bytes plus the bytes that libtorch's
/// allocator caches without using them. Pass the device to a loop as the option `device`: then sizes are
/// remembered by the free memory of this device, and its cached memory is released before a retry.
///
/// The CPU's free memory is the host's, or less under a [`Budget`](cpu::Budget).
///
/// A reading takes well under a microsecond, because each thread asks the driver and the host at most every
/// 100 ms. Bytes held by tensors of this program are subtracted from that answer and always exact (on the
/// CPU since [`cpu::count`]); bytes that other programs took or gave back are at most 100 ms old. Releasing
/// cached memory discards the answer.
///
/// A loop on a device that does not exist or cannot be read runs as without the option: it finds the limit
/// of memory by running into it. [`Device::existing`] reports such a device before the loop, and
/// [`read`](MemorySource::read) at any time.
///
/// ```
/// use toma_core::{NoCache, execute};
/// use toma_torch::Device;
///
/// let device = Device::new(tch::Device::cuda_if_available());
/// let mut done = 0;
/// execute::with::<NoCache>().device(&device).range(0..100, 32, |start, end| done += end - start);
/// assert_eq!(done, 100);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    device: tch::Device,
    name: String,
}

impl Device {
    /// Makes a source for the memory of `device`. A device that does not exist fails only when it is read;
    /// loops run without it.
    pub fn new(device: tch::Device) -> Self {
        let name = match device {
            tch::Device::Cpu => "cpu".to_owned(),
            tch::Device::Cuda(index) => format!("cuda:{index}"),
            tch::Device::Mps => "mps".to_owned(),
            tch::Device::Vulkan => "vulkan".to_owned(),
        };
        Self { device, name }
    }

    /// Makes a source for the memory of `device` if the device exists and its memory can be read.
    ///
    /// Use it for a device number from user input, because [`new`](Self::new) accepts a typing error.
    ///
    /// ```
    /// use toma_torch::{Device, ErrorKind};
    ///
    /// let error = Device::existing(tch::Device::Cuda(999)).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NoDevice);
    /// assert!(Device::existing(tch::Device::Cpu).is_ok());
    /// ```
    ///
    /// # Errors
    /// If the device does not exist, or its driver or its allocator does not report its memory.
    pub fn existing(device: tch::Device) -> Result<Self, Error> {
        let existing = Self::new(device);
        if device != tch::Device::Cpu {
            ffi::device_stats(existing.id())?;
            ffi::device_memory(existing.id())?;
        }
        Ok(existing)
    }

    /// Makes a source for the memory that `tensor` is in.
    pub fn of(tensor: &Tensor) -> Self {
        Self::new(tensor.device())
    }

    /// Parses the name of a memory source. `host` is the CPU.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let device = match name.split_once(':') {
            None => match name {
                "cpu" | "host" => tch::Device::Cpu,
                "mps" => tch::Device::Mps,
                "vulkan" => tch::Device::Vulkan,
                _ => return None,
            },
            Some(("cuda", index)) => tch::Device::Cuda(index.parse().ok()?),
            Some(_) => return None,
        };
        Some(Self::new(device))
    }

    /// Returns the device as a `tch::Device`.
    pub const fn device(&self) -> tch::Device {
        self.device
    }

    /// Returns the counters of libtorch's allocator; for the CPU those of the counting allocator of [`cpu`], where
    /// reserved bytes equal allocated bytes.
    ///
    /// # Errors
    /// If the device does not exist, or its allocator keeps no counters.
    pub fn stats(&self) -> Result<Stats, Error> {
        if self.device == tch::Device::Cpu {
            return Ok(cpu::stats());
        }
        ffi::device_stats(self.id())
    }

    /// Resets the peaks to the bytes that are allocated and reserved now.
    ///
    /// # Errors
    /// If the device does not exist, or its allocator keeps no counters.
    pub fn reset_peaks(&self) -> Result<(), Error> {
        if self.device == tch::Device::Cpu {
            cpu::reset_peak_allocated_bytes();
            return Ok(());
        }
        ffi::reset_device_peak(self.id())
    }

    fn id(&self) -> DeviceId {
        DeviceId::of(self.device)
    }
}

impl MemorySource for Device {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> io::Result<Reading> {
        if self.device == tch::Device::Cpu { read_cpu() } else { read_device(self.id()) }
    }

    /// Releases the cache of all devices of this kind if this one has any, because libtorch offers no finer release.
    fn release_cached_memory(&self) {
        let caches = || self.stats().map_or(true, |stats| stats.reserved_bytes > stats.allocated_bytes);
        // The host's allocator caches nothing. On other devices a failure only means that the retry finds
        // less free memory, and shrinks.
        if self.device != tch::Device::Cpu && caches() {
            let _ = ffi::release_device(self.id());
        }
        level::forget();
    }

    /// Returns `None` for the CPU until [`cpu::count`] has been called. It is not called here, because an
    /// allocator must not change unasked.
    fn usage(&self) -> Option<Usage> {
        let counts = self.device != tch::Device::Cpu || cpu::is_counting();
        let stats = counts.then(|| self.stats().ok()).flatten()?;
        let usage = Usage::new(stats.allocated_bytes, stats.peak_allocated_bytes);
        Some(usage.retried(stats.alloc_retries))
    }

    fn reset_peak(&self) {
        if self.device != tch::Device::Cpu || cpu::is_counting() {
            // A device without counters has no usage either.
            let _ = self.reset_peaks();
        }
    }

    /// A reading is as cheap as a remembered one, and exact for the bytes of this program.
    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

fn read_cpu() -> io::Result<Reading> {
    // Does not install the counting allocator, which must not change unasked.
    let allocated_bytes = ffi::toma_cpu_allocated_bytes;
    let host = || {
        let host = Host::shared().read()?;
        let available_bytes = host.free_bytes.saturating_add(allocated_bytes());
        Ok(Level { available_bytes, total_bytes: host.total_bytes })
    };
    let level = level::recent(DeviceId::of(tch::Device::Cpu), host)?;
    let (allocated_bytes, budget_bytes) = (allocated_bytes(), ffi::toma_cpu_budget());
    let reading = level.less(allocated_bytes);
    let left = budget_bytes.saturating_sub(allocated_bytes);
    Ok(Reading::new(reading.free_bytes.min(left), reading.total_bytes.min(budget_bytes)))
}

/// Free bytes are the driver's free bytes plus the bytes that the allocator caches without using them.
fn read_device(id: DeviceId) -> io::Result<Reading> {
    let level = level::recent(id, || driver(id))?;
    Ok(level.less(ffi::device_stats(id)?.allocated_bytes))
}

/// Reads the driver's free bytes between two reads of the reserved bytes, because bytes that another thread
/// reserves in between would be subtracted twice. Gives up after 3 tries.
fn driver(id: DeviceId) -> io::Result<Level> {
    let reserved = || Ok::<_, Error>(ffi::device_stats(id)?.reserved_bytes);
    let mut level = Level { available_bytes: 0, total_bytes: 0 };
    for _ in 0..3 {
        let before = reserved()?;
        let [free, total_bytes] = ffi::device_memory(id)?;
        level = Level { available_bytes: free.saturating_add(before), total_bytes };
        if reserved()? == before {
            break;
        }
    }
    Ok(level)
}
