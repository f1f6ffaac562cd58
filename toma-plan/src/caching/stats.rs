//! Bytes in each state.

/// Bytes in one state: the current number and the peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// The current number.
    pub current: u64,
    /// The largest number so far.
    pub peak: u64,
}

/// Figures that libtorch's `DeviceStats` reports for the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceStats {
    /// Bytes of blocks in use, including those added by rounding up.
    pub allocated: Bytes,
    /// Bytes of segments.
    pub reserved: Bytes,
    /// Requested bytes of blocks in use.
    pub requested: Bytes,
    /// Number of times that all free segments were released because the driver had no memory left.
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
        self.requested.add(requested);
    }

    pub(super) fn give_back(&mut self, taken: u64, requested: u64) {
        self.allocated.subtract(taken);
        self.requested.subtract(requested);
    }
}
