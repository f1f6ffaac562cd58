use std::io;
use std::time::Duration;

use tch::Tensor;
use toma_core::memory::{self, MemorySource, Reading, Usage};

use super::cpu;
use super::level::{self, Level};
use crate::error::Error;
use crate::ffi::{self, DeviceId};
use crate::stats::Stats;

/// A device of libtorch as a memory source.
///
/// Free is what an allocation could get: what the driver has left, and what libtorch's allocator
/// holds back without using it. Give it to a loop as the option `device`, and sizes are remembered
/// by this device's free memory and its cached memory is released before a retry.
///
/// The CPU's free memory is the host's, or less under a [`Budget`](cpu::Budget).
///
/// Reading it takes well under a microsecond, because the driver and the host are asked at most every
/// 100 ms by each thread: what this program's tensors hold is counted on top of the answer and always
/// exact (on the CPU since [`cpu::count`]), and what others took or gave back is at most 100 ms old.
/// Releasing cached memory forgets the answer.
///
/// A loop on a device that is not there, or that cannot be read, runs as if nothing were known of its
/// memory: out of memory is found by running into it, as without the option. [`Device::existing`] says
/// so before the loop, and [`read`](MemorySource::read) at any time.
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
    /// The memory of `device`; whether there is such a device shows when it is read, and loops go on
    /// where there is none.
    pub fn new(device: tch::Device) -> Self {
        let name = match device {
            tch::Device::Cpu => "cpu".to_owned(),
            tch::Device::Cuda(index) => format!("cuda:{index}"),
            tch::Device::Mps => "mps".to_owned(),
            tch::Device::Vulkan => "vulkan".to_owned(),
        };
        Self { device, name }
    }

    /// The memory of `device`, when there is such a device and its memory can be read.
    ///
    /// For a number that comes from outside, where [`new`](Self::new) would let a typing error pass.
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
    /// When there is no such device, or neither its driver nor its allocator tells of its memory.
    pub fn existing(device: tch::Device) -> Result<Self, Error> {
        let existing = Self::new(device);
        if device != tch::Device::Cpu {
            ffi::device_stats(existing.id())?;
            ffi::device_memory(existing.id())?;
        }
        Ok(existing)
    }

    /// The memory that `tensor` is in.
    pub fn of(tensor: &Tensor) -> Self {
        Self::new(tensor.device())
    }

    /// The memory of this name, or the host's.
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

    /// The device as tch names it.
    pub const fn device(&self) -> tch::Device {
        self.device
    }

    /// What libtorch's allocator has counted; for the CPU the same as [`cpu::stats`].
    ///
    /// # Errors
    /// When there is no such device, or its allocator keeps no books.
    pub fn stats(&self) -> Result<Stats, Error> {
        if self.device == tch::Device::Cpu {
            return Ok(cpu::stats());
        }
        ffi::device_stats(self.id())
    }

    /// Lets the peaks begin again with what is allocated and reserved now.
    ///
    /// # Errors
    /// When there is no such device, or its allocator keeps no books.
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

    /// Of all devices of this kind: libtorch knows no finer release.
    fn release_cached_memory(&self) {
        // The host's allocator keeps nothing back. Elsewhere a failure only means that the retry
        // finds less free, and shrinks.
        if self.device != tch::Device::Cpu {
            let _ = ffi::release_device(self.id());
        }
        level::forget();
    }

    /// Of the CPU once [`cpu::count`] has been called: it is not called for this alone, because an
    /// allocator must not change unasked.
    fn usage(&self) -> Option<Usage> {
        let counts = self.device != tch::Device::Cpu || cpu::is_counting();
        let stats = counts.then(|| self.stats().ok()).flatten()?;
        let usage = Usage::new(stats.allocated_bytes, stats.peak_allocated_bytes);
        Some(usage.retried(stats.alloc_retries))
    }

    fn reset_peak(&self) {
        if self.device != tch::Device::Cpu || cpu::is_counting() {
            // A device without books has no usage either.
            let _ = self.reset_peaks();
        }
    }

    /// It is as cheap to read as to remember, and exact in what is ours.
    fn staleness(&self) -> Duration {
        Duration::ZERO
    }
}

fn read_cpu() -> io::Result<Reading> {
    // Without putting the counting allocator in place: it must not change unasked.
    let allocated_bytes = ffi::toma_cpu_allocated_bytes;
    let host = || {
        let host = memory::host()?;
        let available_bytes = host.free_bytes.saturating_add(allocated_bytes());
        Ok(Level { available_bytes, total_bytes: host.total_bytes })
    };
    let level = level::recent(DeviceId::of(tch::Device::Cpu), host)?;
    let (allocated_bytes, budget_bytes) = (allocated_bytes(), ffi::toma_cpu_budget());
    let reading = level.less(allocated_bytes);
    let left = budget_bytes.saturating_sub(allocated_bytes);
    Ok(Reading::new(reading.free_bytes.min(left), reading.total_bytes.min(budget_bytes)))
}

/// Free is what the driver has left and what the allocator holds back without using it.
fn read_device(id: DeviceId) -> io::Result<Reading> {
    let level = level::recent(id, || driver(id))?;
    Ok(level.less(ffi::device_stats(id)?.allocated_bytes))
}

/// What the driver has left, read between two looks at what the allocator has taken from it: what
/// another thread took meanwhile would count twice. One that goes on taking is not waited for.
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
