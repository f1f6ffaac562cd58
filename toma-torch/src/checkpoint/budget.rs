//! How many bytes the plan of a region may take, and what is said where that is too few.

use toma_core::device;
use toma_core::memory::MemorySource as _;
use toma_plan::checkpoint::TooSmall;

use super::With;
use super::knowledge::Place;
use crate::error::{Error, ErrorKind};
use crate::memory::Device;
use crate::offload;

/// Left of what is free, for what was not measured.
const HEAD_ROOM_PERCENT: u64 = 2;

/// What one region may take of a device.
#[derive(Debug)]
pub(super) struct Budget {
    device: Device,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Asked(u64),
    /// Free when the region began, and not promised to others.
    Free(u64),
}

impl Budget {
    pub(super) fn of(form: &With<'_>, device: Device) -> Self {
        let bytes = form.budget_bytes.map_or_else(|| Bytes::Free(free_bytes(&device)), Bytes::Asked);
        Self { device, bytes }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Of what is free, less some for what was not measured.
    pub(super) fn bytes(&self) -> u64 {
        match self.bytes {
            Bytes::Asked(bytes) => bytes,
            Bytes::Free(bytes) => bytes / 100 * (100 - HEAD_ROOM_PERCENT),
        }
    }

    /// The same without anything left of it, for a plan that fits in no less.
    pub(super) fn all_bytes(&self) -> u64 {
        let (Bytes::Asked(bytes) | Bytes::Free(bytes)) = self.bytes;
        bytes
    }

    /// In words that mean out of memory, whatever carries them.
    pub(super) fn too_small(&self, place: &Place, small: &TooSmall, lacking_bytes: u64) -> Error {
        let Self { device, bytes } = self;
        let TooSmall { stage, solver, least_bytes, .. } = small;
        let have = match bytes {
            Bytes::Asked(asked) => format!("a budget of {asked} bytes is"),
            Bytes::Free(free) => format!("{} of {free} free bytes are", self.bytes()),
        };
        let gradients = match lacking_bytes {
            0 => String::new(),
            bytes => format!(", and gradients that variables lack {bytes}"),
        };
        let needs =
            format!("{have} too small for {solver}: stage {stage} needs {least_bytes} bytes{gradients}");
        let text = format!("{} out of memory: checkpoint {place}: {needs}", device.name());
        Error::new(ErrorKind::OutOfMemory, text)
    }
}

fn free_bytes(device: &Device) -> u64 {
    let free = offload::free_bytes(device).unwrap_or(u64::MAX);
    free.saturating_sub(device::promised_bytes(device))
}
