//! Counts of storages by location, and of moves.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use toma_trace::Size;

use crate::offload::moves::state::ManagerState;
use crate::offload::moves::table::{Entry, Location};

/// Numbers and bytes of storages by location.
///
/// ```
/// use toma_torch::{Device, offload::Manager};
///
/// let status = Manager::new(&Device::new(tch::Device::Cpu)).status();
/// println!("{} of {} bytes are evicted", status.evicted_bytes, status.evicted_bytes + status.resident_bytes);
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Storages on the device that may move.
    pub resident: u64,
    /// Bytes of these storages.
    pub resident_bytes: u64,
    /// Storages in use: by an operator, or pinned.
    pub pinned: u64,
    /// Bytes of these storages.
    pub pinned_bytes: u64,
    /// Evicted storages.
    pub evicted: u64,
    /// Bytes of these storages.
    pub evicted_bytes: u64,
    /// Bytes of host memory in use for evicted storages and for copies of resident ones.
    pub host_bytes: u64,
}

impl Status {
    pub(crate) fn of(shared: &ManagerState) -> Self {
        let (mut status, swept) = {
            let mut table = shared.table();
            let swept = table.sweep();
            let mut status = Self {
                resident: 0,
                resident_bytes: 0,
                pinned: 0,
                pinned_bytes: 0,
                evicted: shared.evicted.count(),
                evicted_bytes: shared.evicted.bytes(),
                host_bytes: 0,
            };
            let is_there = |entry: &&Entry| {
                !matches!(entry.location, Location::Evicted | Location::Parked) && !entry.storage.is_gone()
            };
            for entry in table.entries.values().filter(is_there) {
                status.resident += 1;
                status.resident_bytes += entry.bytes;
                status.pinned += u64::from(entry.pins > 0);
                status.pinned_bytes += if entry.pins > 0 { entry.bytes } else { 0 };
            }
            (status, swept)
        };
        drop(swept);
        status.host_bytes = shared.host.used_bytes();
        status
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [resident, pinned, evicted] =
            [self.resident_bytes, self.pinned_bytes, self.evicted_bytes].map(Size::of);
        write!(
            f,
            "{} storages of {resident} on the device, {} of {pinned} in use, ",
            self.resident, self.pinned
        )?;
        write!(f, "{} of {evicted} evicted", self.evicted)
    }
}

/// Counts of operators and moves since the manager was made.
///
/// ```
/// use toma_torch::{Device, offload::Manager};
///
/// let report = Manager::new(&Device::new(tch::Device::Cpu)).report();
/// assert_eq!((report.operators, report.fetches), (0, 0)); // it was just made
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Operators that were seen.
    pub operators: u64,
    /// Storages that were fetched.
    pub fetches: u64,
    /// Bytes that were fetched.
    pub bytes_in: u64,
    /// Storages that were evicted.
    pub offloads: u64,
    /// Bytes that were copied for evictions; a storage with a valid copy adds none.
    pub bytes_out: u64,
    /// How often an operator waited for a storage.
    pub stalls: u64,
    /// Total time of these waits.
    pub stalled: Duration,
    /// How often the eviction policy panicked.
    pub policy_panics: u64,
    /// How often rows were gathered from an evicted table, which stayed evicted.
    pub gathers: u64,
    /// Bytes of these tables, which would otherwise have been fetched each time.
    pub gathered_bytes: u64,
}

impl Report {
    pub(crate) fn of(shared: &ManagerState) -> Self {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &shared.counts;
        Self {
            operators: read(&counts.operators),
            fetches: read(&counts.fetches),
            bytes_in: read(&counts.bytes_in),
            offloads: read(&counts.offloads),
            bytes_out: read(&counts.bytes_out),
            stalls: read(&counts.stalls),
            stalled: Duration::from_nanos(read(&counts.stall_nanos)),
            policy_panics: read(&counts.policy_panics),
            gathers: read(&counts.gathers),
            gathered_bytes: read(&counts.gathered_bytes),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [bytes_in, bytes_out] = [self.bytes_in, self.bytes_out].map(Size::of);
        write!(f, "{} operators: {bytes_in} in by {} fetches, ", self.operators, self.fetches)?;
        write!(
            f,
            "{bytes_out} out by {} offloads, {} stalls of {:?}",
            self.offloads, self.stalls, self.stalled
        )?;
        if self.gathers > 0 {
            write!(f, ", {} gathers from {} of evicted tables", self.gathers, Size::of(self.gathered_bytes))?;
        }
        Ok(())
    }
}
