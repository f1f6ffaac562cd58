//! The counting CPU allocator.

use crate::stats::Stats;

// Sound to call with any numbers, from any thread: what they touch is atomic or of the calling thread,
// and the allocator may be put in place at any time.
unsafe extern "C" {
    pub(crate) safe fn toma_cpu_install();
    pub(crate) safe fn toma_cpu_stats() -> Stats;
    pub(crate) safe fn toma_cpu_allocated_bytes() -> u64;
    pub(crate) safe fn toma_cpu_reset_peak();
    /// The limit in force, `u64::MAX` for none.
    pub(crate) safe fn toma_cpu_budget() -> u64;
    pub(crate) safe fn toma_cpu_set_budget(bytes: u64);
    safe fn toma_cpu_fail_after(skip: i64) -> i64;
}

/// Lets an allocation of this thread fail after `skip` more; returns how many were left before.
pub(crate) fn fail_cpu_allocation(skip: Option<u32>) -> Option<u32> {
    let left = toma_cpu_fail_after(skip.map_or(-1, i64::from));
    u32::try_from(left).ok()
}
