//! Bytes for a step, and those that CUDA's allocator can make of them.

/// Multiple in which the allocator takes memory from the device.
const GRANULE_BYTES: u64 = 2 << 20;

/// The head-room is one of so many free bytes. It is left free because no plan sees all memory that a program takes.
const HEAD_ROOM: u64 = 100;

/// Bytes for a step.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Without the head-room.
    pub(super) usable_bytes: u64,
    pub(super) free_bytes: u64,
}

impl Room {
    /// The free bytes, less the head-room.
    pub(super) fn within(free_bytes: u64) -> Self {
        Self { usable_bytes: free_bytes - free_bytes.div_ceil(HEAD_ROOM), free_bytes }
    }

    /// The bytes that an allocator may reserve of which so many are in use. It uses the head-room up to a whole
    /// granule, of which the rest would serve nobody.
    pub(super) fn capacity(self, in_use_bytes: u64) -> u64 {
        let usable = in_use_bytes.saturating_add(self.usable_bytes);
        let whole = usable.checked_next_multiple_of(GRANULE_BYTES).unwrap_or(usable);
        whole.min(in_use_bytes.saturating_add(self.free_bytes))
    }
}
