//! Memory of devices.

use toma_plan::caching::{Pool, Segment};
use toma_trace::Place;

use super::{RawError, checked};
use crate::error::Error;
use crate::stats::Stats;

// Sound to call with any numbers, from any thread: the shim checks its arguments.
unsafe extern "C" {
    safe fn toma_device_stats(id: DeviceId, out: &mut Stats, error: &mut RawError) -> i32;
    safe fn toma_device_memory(id: DeviceId, out: &mut [u64; 2], error: &mut RawError) -> i32;
    // Writes at most `most` parts, for which there must be room.
    fn toma_device_parts(
        id: DeviceId,
        parts: *mut Part,
        most: usize,
        count: &mut usize,
        error: &mut RawError,
    ) -> i32;
    safe fn toma_device_release(id: DeviceId, error: &mut RawError) -> i32;
    safe fn toma_device_reset_peak(id: DeviceId, error: &mut RawError) -> i32;
}

/// A block of a segment.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)] // `toma_part` of the shim.
struct Part {
    bytes: u64,
    requested: u64,
    begins: bool,
    is_small: bool,
    is_used: bool,
    serves_all: bool,
}

/// A device of the shim: the number of its kind in c10, and its index. The default is the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)] // `toma_device` of the shim.
pub(crate) struct DeviceId {
    kind: i32,
    index: i32,
}

impl DeviceId {
    pub(crate) fn of(device: tch::Device) -> Self {
        // The numbers of c10::DeviceType, which never change because files contain them.
        let (kind, index) = match device {
            tch::Device::Cpu => (0, 0),
            // An index that is too large for any device is no device.
            tch::Device::Cuda(index) => (1, i32::try_from(index).unwrap_or(-1)),
            tch::Device::Vulkan => (10, 0),
            tch::Device::Mps => (13, 0),
        };
        Self { kind, index }
    }

    /// Returns the device of tch; the CPU if tch has no name for it.
    pub(crate) fn device(self) -> tch::Device {
        match self.kind {
            1 => tch::Device::Cuda(usize::try_from(self.index).unwrap_or_default()),
            10 => tch::Device::Vulkan,
            13 => tch::Device::Mps,
            _ => tch::Device::Cpu,
        }
    }

    /// Returns the device of an event, which has the kind in the upper half of a word and the index in the lower.
    pub(super) fn of_word(word: u64) -> Self {
        let half = |number| i32::try_from(number & u64::from(u32::MAX)).unwrap_or(-1);
        Self { kind: half(word >> 32), index: half(word) }
    }

    /// Returns kind and index.
    pub(crate) fn numbers(self) -> (u32, u32) {
        (self.kind.unsigned_abs(), self.index.unsigned_abs())
    }

    /// Returns the memory of the device.
    pub(crate) fn place(self) -> Place {
        let (kind, index) = self.numbers();
        match kind {
            0 => Place::HOST,
            1 => Place::device("cuda", index),
            10 => Place::device("vulkan", index),
            13 => Place::device("mps", index),
            other => Place::device(&format!("kind{other}"), index),
        }
    }
}

pub(crate) fn device_stats(id: DeviceId) -> Result<Stats, Error> {
    let mut stats = Stats::default();
    checked(|error| toma_device_stats(id, &mut stats, error))?;
    Ok(stats)
}

/// Returns free and total bytes, as the driver reports them.
pub(crate) fn device_memory(id: DeviceId) -> Result<[u64; 2], Error> {
    let mut memory = [0; 2];
    checked(|error| toma_device_memory(id, &mut memory, error))?;
    Ok(memory)
}

/// Returns the segments that CUDA's allocator has reserved, as far as requests of this thread may be served from them.
/// Other segments count as used as a whole, or are left out if they are free, because they are released on demand.
pub(crate) fn device_segments(id: DeviceId) -> Result<Vec<Segment>, Error> {
    let parts = device_parts(id)?;
    let segments = parts.chunk_by(|_, next| !next.begins);
    Ok(segments.filter_map(segment).collect())
}

fn segment(parts: &[Part]) -> Option<Segment> {
    let first = parts.first()?;
    let pool = if first.is_small { Pool::Small } else { Pool::Large };
    if first.serves_all {
        let blocks = parts.iter().map(|part| (part.bytes, part.is_used.then_some(part.requested)));
        return Some(Segment::new(pool, blocks));
    }
    let bytes = parts.iter().map(|part| part.bytes).sum();
    parts.iter().any(|part| part.is_used).then(|| Segment::new(pool, [(bytes, Some(bytes))]))
}

fn device_parts(id: DeviceId) -> Result<Vec<Part>, Error> {
    let (mut parts, mut count) = (Vec::new(), 0);
    loop {
        parts.resize(count, Part::default());
        checked(|error| {
            // SAFETY: there is room for the number of parts that is passed.
            unsafe { toma_device_parts(id, parts.as_mut_ptr(), parts.len(), &mut count, error) }
        })?;
        // Other threads may have made more parts since.
        if count <= parts.len() {
            parts.truncate(count);
            return Ok(parts);
        }
    }
}

pub(crate) fn release_device(id: DeviceId) -> Result<(), Error> {
    checked(|error| toma_device_release(id, error))
}

pub(crate) fn reset_device_peak(id: DeviceId) -> Result<(), Error> {
    checked(|error| toma_device_reset_peak(id, error))
}
