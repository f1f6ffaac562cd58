//! What is measured of an attempt, for policies that ask for it.
//!
//! The peak of a memory is one figure, and resetting it takes it from whoever measures there already.
//! So only the first does: an attempt inside another one leaves the outer one's peak alone, and knows
//! its own only when it goes higher; of attempts beside each other nothing is known. One that came and
//! went in between is counted in. A size that comes out wrong is corrected by what it causes.

use std::time::Duration;

use crate::memory::{self, MemorySource, Usage};
use crate::policy::Sample;

/// What was measured of one attempt; nothing of what nobody asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) elapsed: Option<Duration>,
    pub(crate) peak_bytes: Option<u64>,
    pub(crate) available_bytes: Option<u64>,
    pub(crate) counts_bytes: bool,
    pub(crate) retried: bool,
}

impl Measured {
    pub(crate) fn sample(&self, size: usize) -> Sample {
        Sample { time: self.elapsed, bytes: self.peak_bytes, ..Sample::new(size) }
    }
}

/// Needs the memory of one attempt after the other.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    before: Usage,
    resets: bool,
}

impl Meter {
    /// An attempt begins; `is_first` says whether nobody else measures this memory, and is asked where
    /// something can be measured at all.
    pub(crate) fn begin(&mut self, source: &dyn MemorySource, is_first: impl FnOnce() -> bool) {
        self.begun = None;
        let Some(before) = source.usage() else { return };
        let resets = is_first();
        if resets {
            source.reset_peak();
        }
        self.begun = Some(Begun { before, resets });
    }

    /// It has ended.
    pub(crate) fn end(&mut self, source: &dyn MemorySource) -> Measured {
        let after = source.usage();
        let mut measured = available(source, after.is_some());
        if let (Some(begun), Some(after)) = (self.begun.take(), after) {
            measured.peak_bytes = begun.peak_bytes(after);
            measured.retried = after.num_alloc_retries > begun.before.num_alloc_retries;
        }
        measured
    }
}

/// What could be allocated now.
pub(crate) fn now(source: &dyn MemorySource) -> Measured {
    available(source, source.usage().is_some())
}

fn available(source: &dyn MemorySource, counts_bytes: bool) -> Measured {
    // What is counted moves with every attempt, and what is free with it.
    let reading = if counts_bytes { source.read().ok() } else { memory::recent(source) };
    let available_bytes = reading.map(|now| now.free_bytes);
    Measured { available_bytes, counts_bytes, ..Measured::default() }
}

impl Begun {
    fn peak_bytes(&self, after: Usage) -> Option<u64> {
        let is_ours = self.resets || after.peak_allocated_bytes > self.before.peak_allocated_bytes;
        is_ours.then(|| after.peak_allocated_bytes.saturating_sub(self.before.allocated_bytes))
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::{Meter, now};
    use crate::testing::FakeDevice;

    #[test]
    fn cached_memory_is_available_once() {
        let device = FakeDevice::new(100).with_cached_memory();
        let held = device.alloc(10).unwrap();
        drop(device.alloc(60).unwrap());
        assert_eq!(device.free_bytes(), 30);
        assert_eq!(now(&device).available_bytes, Some(90));
        drop(held);
    }

    #[test]
    fn an_attempt_inside_another_leaves_its_peak_alone() {
        let device = FakeDevice::new(100);
        let (mut outer, mut inner) = (Meter::default(), Meter::default());
        outer.begin(&device, || true);
        drop(device.alloc(50).unwrap());
        inner.begin(&device, || false);
        drop(device.alloc(20).unwrap());
        assert_eq!(inner.end(&device).peak_bytes, None);
        inner.begin(&device, || false);
        drop(device.alloc(70).unwrap());
        assert_eq!(
            [inner.end(&device), outer.end(&device)].map(|measured| measured.peak_bytes),
            [Some(70); 2]
        );
    }
}
