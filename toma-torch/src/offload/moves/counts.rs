//! Counters of a manager, and of the storages that are evicted now.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Totals since the manager was made.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) fetches: AtomicU64,
    pub(crate) bytes_in: AtomicU64,
    pub(crate) offloads: AtomicU64,
    pub(crate) bytes_out: AtomicU64,
    pub(crate) in_nanos: AtomicU64,
    pub(crate) out_nanos: AtomicU64,
    /// Operators that waited for a prefetch in progress, since the last repetition of a step.
    pub(crate) late: AtomicU64,
    pub(crate) adaptions: AtomicU64,
    /// The most bytes that could not be evicted at one time: arguments of one operator, and its allocations.
    pub(crate) peak_used_bytes: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stall_nanos: AtomicU64,
    pub(crate) operators: AtomicU64,
    pub(crate) policy_panics: AtomicU64,
    pub(crate) gathers: AtomicU64,
    pub(crate) gathered_bytes: AtomicU64,
}

impl Counts {
    /// Counts a gather of rows from a table of `bytes` bytes that stays where it is.
    pub(crate) fn gathered(&self, bytes: u64) {
        add(&self.gathers, 1);
        add(&self.gathered_bytes, bytes);
    }

    /// Copy speed in bytes per second; `None` before the first copy.
    pub(crate) fn in_speed(&self) -> Option<f64> {
        speed(&self.bytes_in, &self.in_nanos)
    }

    pub(crate) fn out_speed(&self) -> Option<f64> {
        speed(&self.bytes_out, &self.out_nanos)
    }
}

/// Number and bytes of the storages that are evicted now, for the status of a manager. Atomic, because a storage may end
/// on any thread.
#[derive(Debug, Default)]
pub(crate) struct EvictedTally {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl EvictedTally {
    pub(crate) fn add(&self, bytes: u64) {
        add(&self.count, 1);
        add(&self.bytes, bytes);
    }

    pub(crate) fn remove(&self, bytes: u64) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[expect(clippy::cast_precision_loss, reason = "speeds need no more")]
fn speed(bytes: &AtomicU64, nanos: &AtomicU64) -> Option<f64> {
    let [bytes, nanos] = [bytes, nanos].map(|counter| counter.load(Ordering::Relaxed) as f64);
    (nanos > 0.0 && bytes > 0.0).then(|| bytes / nanos * 1e9)
}

pub(crate) fn timed<T>(nanos: &AtomicU64, copy: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let copied = copy();
    add(nanos, u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    copied
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
