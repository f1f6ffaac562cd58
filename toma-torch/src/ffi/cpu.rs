//! The counting CPU allocator.

use crate::stats::Stats;

// Sound to call with any numbers, from any thread: the state that they change is atomic or of the calling thread, and
// the allocator may be installed at any time.
unsafe extern "C" {
    pub(crate) safe fn toma_cpu_install();
    pub(crate) safe fn toma_cpu_stats() -> Stats;
    pub(crate) safe fn toma_cpu_allocated_bytes() -> u64;
    pub(crate) safe fn toma_cpu_reset_peak();
    /// Current limit in bytes; `u64::MAX` for none.
    pub(crate) safe fn toma_cpu_budget() -> u64;
    pub(crate) safe fn toma_cpu_set_budget(bytes: u64);
    safe fn toma_cpu_fail_after(skip: i64) -> i64;
}

/// Makes an allocation of this thread fail after `skip` more; returns the number that was left before.
pub(crate) fn fail_cpu_allocation(skip: Option<u32>) -> Option<u32> {
    let left = toma_cpu_fail_after(skip.map_or(-1, i64::from));
    u32::try_from(left).ok()
}
