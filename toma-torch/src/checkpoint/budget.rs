//! Byte budget of a region's plan, and the error for a budget that is too small.

use toma_core::device;
use toma_core::memory::MemorySource as _;
use toma_plan::checkpoint::TooSmall;

use super::With;
use super::learned::RegionKey;
use crate::error::{Error, ErrorKind};
use crate::memory::Device;
use crate::offload;

/// Percent of the free bytes that plans leave unused, for allocations that were not measured.
const HEAD_ROOM_PERCENT: u64 = 2;

/// Byte budget of one region on one device.
#[derive(Debug)]
pub(super) struct RegionBudget {
    device: Device,
    bytes: BudgetBytes,
}

#[derive(Debug)]
enum BudgetBytes {
    Requested(u64),
    /// Free bytes when the region began, less those promised to other regions.
    Free(u64),
}

impl RegionBudget {
    pub(super) fn of(form: &With<'_>, device: Device) -> Self {
        let bytes =
            form.budget_bytes.map_or_else(|| BudgetBytes::Free(free_bytes(&device)), BudgetBytes::Requested);
        Self { device, bytes }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the budget in bytes. A budget of free bytes is reduced by the head room.
    pub(super) fn bytes(&self) -> u64 {
        match self.bytes {
            BudgetBytes::Requested(bytes) => bytes,
            BudgetBytes::Free(bytes) => rounded(bytes / 100 * (100 - HEAD_ROOM_PERCENT)),
        }
    }

    /// Returns the budget without the head room, for a plan that fits in no less.
    pub(super) fn all_bytes(&self) -> u64 {
        let (BudgetBytes::Requested(bytes) | BudgetBytes::Free(bytes)) = self.bytes;
        bytes
    }

    /// Returns an error that counts as out of memory, also when it is passed on as a panic or as an error of tch.
    pub(super) fn too_small(&self, key: &RegionKey, small: &TooSmall, lacking_bytes: u64) -> Error {
        let Self { device, bytes } = self;
        let TooSmall { stage, solver, least_bytes, .. } = small;
        let have = match bytes {
            BudgetBytes::Requested(requested) => format!("a budget of {requested} bytes is"),
            BudgetBytes::Free(free) => format!("{} of {free} free bytes are", self.bytes()),
        };
        let gradients = match lacking_bytes {
            0 => String::new(),
            bytes => format!(", plus {bytes} bytes for gradients that variables do not have yet"),
        };
        let needs =
            format!("{have} too small for {solver}: stage {stage} needs {least_bytes} bytes{gradients}");
        let text = format!("{} out of memory: checkpoint {key}: {needs}", device.name());
        Error::new(ErrorKind::OutOfMemory, text)
    }
}

fn free_bytes(device: &Device) -> u64 {
    let free = offload::free_bytes(device).unwrap_or(u64::MAX);
    free.saturating_sub(device::promised_bytes(device))
}

/// Rounds down by at most a 64th, so that a plan serves free bytes that differ a little from step to step.
fn rounded(bytes: u64) -> u64 {
    let unit = 1 << bytes.checked_ilog2().map_or(0, |log| log.saturating_sub(6));
    bytes / unit * unit
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn free_bytes_are_rounded_down_to_few_budgets() {
        assert_eq!([0, 1, 127, 129].map(rounded), [0, 1, 127, 128]);
        let mut budgets: Vec<_> = (1 << 20..1 << 21).step_by(7).map(rounded).collect();
        assert!((1 << 20..1 << 21).all(|bytes| (bytes - bytes / 64..=bytes).contains(&rounded(bytes))));
        budgets.dedup();
        assert_eq!(budgets.len(), 64);
    }
}
