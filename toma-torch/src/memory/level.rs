//! Memory levels of devices, read from the driver or the host and cached for 100 ms.
//!
//! A read of either costs from one microsecond to tens of them. The cache holds the sum of free bytes and bytes
//! of this program, so allocations of this program do not make it stale: only other programs change the sum.
//!
//! Each thread has its own cache, so that no thread writes memory that another one reads.
//!
//! # Why
//!
//! The cache of libtorch's allocator does not change the sum of free and reserved bytes. So only the memory of
//! other programs goes stale, by 100 ms at most.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use toma_core::memory::Reading;

use crate::ffi::DeviceId;

/// How long a cached level is valid.
pub(crate) const STALENESS: Duration = Duration::from_millis(100);

/// Bytes that are free or held by this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// Free bytes plus the bytes that our allocator has reserved from the driver.
    pub(crate) available_bytes: u64,
    pub(crate) total_bytes: u64,
}

impl Level {
    /// Returns the free bytes while tensors hold `allocated_bytes`.
    pub(crate) fn less(self, allocated_bytes: u64) -> Reading {
        let free_bytes = self.available_bytes.saturating_sub(allocated_bytes).min(self.total_bytes);
        Reading::new(free_bytes, self.total_bytes)
    }
}

#[derive(Clone, Copy, Debug)]
struct KnownLevel {
    id: DeviceId,
    level: Level,
    at: Instant,
    generation: u64,
}

impl KnownLevel {
    fn is_fresh(&self, now: Instant, generation: u64) -> bool {
        self.generation == generation && now.saturating_duration_since(self.at) < STALENESS
    }
}

/// Increased to invalidate the cached levels of all threads.
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// One entry for each device that this thread has read.
    static ANSWERS: RefCell<Vec<KnownLevel>> = const { RefCell::new(Vec::new()) };
}

/// Returns the cached level of a device, or calls `read` if there is none. Errors are not cached.
pub(crate) fn recent(id: DeviceId, read: impl FnOnce() -> io::Result<Level>) -> io::Result<Level> {
    let (now, generation) = (Instant::now(), GENERATION.load(Ordering::Relaxed));
    let known = |answers: &RefCell<Vec<KnownLevel>>| {
        let answer = answers.borrow().iter().find(|answer| answer.id == id).copied();
        answer.filter(|answer| answer.is_fresh(now, generation)).map(|answer| answer.level)
    };
    // The cache may be destroyed already while its thread ends.
    if let Ok(Some(level)) = ANSWERS.try_with(known) {
        return Ok(level);
    }
    let level = read()?;
    let _ = ANSWERS.try_with(|answers| {
        let mut answers = answers.borrow_mut();
        answers.retain(|answer| answer.id != id);
        answers.push(KnownLevel { id, level, at: now, generation });
    });
    Ok(level)
}

/// Invalidates the cached levels of all threads.
pub(crate) fn forget() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread;

    const LEVEL: Level = Level { available_bytes: 100, total_bytes: 80 };

    /// Each test has devices of its own.
    fn id(index: usize) -> DeviceId {
        DeviceId::of(tch::Device::Cuda(1000 + index))
    }

    #[test]
    fn the_second_answer_is_remembered_until_it_is_forgotten_by_any_thread() {
        // Other tests may call `forget` at any moment, which causes one read too many and never one too few.
        let reads = Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            Ok(Level { total_bytes: reads.get(), ..LEVEL })
        };
        let remembers = |_| recent(id(0), read).unwrap() == recent(id(0), read).unwrap();
        assert!((0..100).any(remembers));
        let before = reads.get();
        thread::spawn(forget).join().unwrap();
        recent(id(0), read).unwrap();
        assert!(reads.get() > before);
        let before = reads.get();
        recent(id(1), read).unwrap();
        assert!(reads.get() > before, "another device");
    }

    #[test]
    fn errors_are_asked_for_again() {
        assert!(recent(id(2), || Err(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(recent(id(2), || Ok(LEVEL)).unwrap(), LEVEL);
    }

    #[test]
    fn an_answer_is_good_for_less_than_its_staleness() {
        let (at, instant) = (Instant::now(), Duration::from_nanos(1));
        let answer = KnownLevel { id: id(3), level: LEVEL, at, generation: 7 };
        assert!(answer.is_fresh(at, 7));
        assert!(answer.is_fresh(at + STALENESS.saturating_sub(instant), 7));
        assert!(!answer.is_fresh(at + STALENESS, 7));
        assert!(!answer.is_fresh(at, 8));
    }

    #[test]
    fn bytes_of_tensors_are_not_free_and_nothing_exceeds_the_total() {
        let free = |allocated| LEVEL.less(allocated).free_bytes;
        assert_eq!([free(0), free(20), free(21), free(100), free(u64::MAX)], [80, 80, 79, 0, 0]);
    }
}
