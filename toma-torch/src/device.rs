use std::io;
use std::time::Duration;

use tch::Tensor;
use toma_core::memory::{self, MemorySource, Reading, Usage};

use crate::error::Error;
use crate::level::{self, Level};
use crate::{cpu, ffi};

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
/// use toma_core::{cache::NoCache, execute};
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

/// What an allocator of libtorch has counted on one device.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that tensors hold.
    pub allocated_bytes: u64,
    /// Bytes that the allocator has from the driver, whether a tensor holds them or not.
    pub reserved_bytes: u64,
    /// The most bytes that tensors held at any time since the peaks were reset.
    pub peak_allocated_bytes: u64,
    /// The most bytes that the allocator had at any time since the peaks were reset.
    pub peak_reserved_bytes: u64,
    /// Times the allocator released its cached memory because the driver had no more.
    pub alloc_retries: u64,
    /// Times it gave up and raised out of memory.
    pub ooms: u64,
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
            ffi::device_stats(existing.place())?;
            ffi::device_memory(existing.place())?;
        }
        Ok(existing)
    }

    /// The memory that `tensor` is in.
    pub fn of(tensor: &Tensor) -> Self {
        Self::new(tensor.device())
    }

    /// The device as tch names it.
    pub const fn device(&self) -> tch::Device {
        self.device
    }

    /// What libtorch's allocator has counted; of the CPU since [`cpu::count`].
    ///
    /// # Errors
    /// When there is no such device, or its allocator keeps no books.
    pub fn stats(&self) -> Result<Stats, Error> {
        if self.device == tch::Device::Cpu {
            return Ok(cpu_stats());
        }
        let stats = ffi::device_stats(self.place())?;
        Ok(Stats {
            allocated_bytes: stats.allocated_bytes,
            reserved_bytes: stats.reserved_bytes,
            peak_allocated_bytes: stats.peak_allocated_bytes,
            peak_reserved_bytes: stats.peak_reserved_bytes,
            alloc_retries: stats.alloc_retries,
            ooms: stats.ooms,
        })
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
        ffi::reset_device_peak(self.place())
    }

    fn place(&self) -> ffi::Place {
        ffi::Place::of(self.device)
    }
}

impl MemorySource for Device {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> io::Result<Reading> {
        if self.device == tch::Device::Cpu { read_cpu() } else { read_device(self.place()) }
    }

    /// Of all devices of this kind: libtorch knows no finer release.
    fn release_cached_memory(&self) {
        // The host's allocator keeps nothing back. Elsewhere a failure only means that the retry
        // finds less free, and shrinks.
        if self.device != tch::Device::Cpu {
            let _ = ffi::release_device(self.place());
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
    let host = || {
        let (host, stats) = (memory::host()?, ffi::cpu_stats());
        let available_bytes = host.free_bytes.saturating_add(stats.allocated_bytes);
        Ok(Level { available_bytes, total_bytes: host.total_bytes })
    };
    let level = level::recent(ffi::Place::of(tch::Device::Cpu), host)?;
    let stats = ffi::cpu_stats();
    let reading = level.less(stats.allocated_bytes);
    let left = stats.budget_bytes.saturating_sub(stats.allocated_bytes);
    Ok(Reading::new(reading.free_bytes.min(left), reading.total_bytes.min(stats.budget_bytes)))
}

/// Free is what the driver has left and what the allocator holds back without using it.
fn read_device(place: ffi::Place) -> io::Result<Reading> {
    let level = level::recent(place, || driver(place))?;
    Ok(level.less(ffi::device_stats(place)?.allocated_bytes))
}

/// What the driver has left, read between two looks at what the allocator has taken from it: what
/// another thread took meanwhile would count twice. One that goes on taking is not waited for.
fn driver(place: ffi::Place) -> io::Result<Level> {
    let reserved = || Ok::<_, Error>(ffi::device_stats(place)?.reserved_bytes);
    let mut level = Level { available_bytes: 0, total_bytes: 0 };
    for _ in 0..3 {
        let before = reserved()?;
        let (free, total_bytes) = ffi::device_memory(place)?;
        level = Level { available_bytes: free.saturating_add(before), total_bytes };
        if reserved()? == before {
            break;
        }
    }
    Ok(level)
}

fn cpu_stats() -> Stats {
    let ffi::CpuStats { allocated_bytes, peak_allocated_bytes, ooms, .. } = cpu::stats();
    Stats {
        allocated_bytes,
        reserved_bytes: allocated_bytes,
        peak_allocated_bytes,
        peak_reserved_bytes: peak_allocated_bytes,
        alloc_retries: 0,
        ooms,
    }
}
