//! Bytes in each state.

/// Bytes in one state: now, and the most there ever were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// How many there are.
    pub current: u64,
    /// The most there ever were.
    pub peak: u64,
}

/// What libtorch's `DeviceStats` say of the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// Bytes of blocks in use, with all that they were rounded up by.
    pub allocated: Bytes,
    /// Bytes of blocks that are in use or wait for another stream: with one stream, the allocated ones.
    pub active: Bytes,
    /// Bytes of segments.
    pub reserved: Bytes,
    /// Bytes that were asked for, of blocks in use.
    pub requested: Bytes,
    /// How often everything free was released because the driver had no memory left.
    pub retries: u64,
}

impl Bytes {
    pub(super) fn add(&mut self, bytes: u64) {
        self.current += bytes;
        self.peak = self.peak.max(self.current);
    }

    pub(super) fn subtract(&mut self, bytes: u64) {
        self.current -= bytes;
    }
}

impl DeviceStats {
    pub(super) fn occupy(&mut self, taken: u64, requested: u64) {
        self.allocated.add(taken);
        self.active.add(taken);
        self.requested.add(requested);
    }

    pub(super) fn give_back(&mut self, taken: u64, requested: u64) {
        self.allocated.subtract(taken);
        self.active.subtract(taken);
        self.requested.subtract(requested);
    }
}
