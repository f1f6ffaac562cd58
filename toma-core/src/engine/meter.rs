//! Measurements of attempts, for policies that need them.
//!
//! A memory has one peak figure, and resetting it would spoil a measurement that runs there already. So only the
//! first attempt resets it. An attempt inside another one leaves the outer peak as it is, and knows its own only if
//! that is higher. Attempts next to each other have no known peak. If a size is wrong because of that, its
//! consequences correct it.
//!
//! # Why
//!
//! Without the option `device` no memory is measured. The host's memory does not change when a GPU's does, and a
//! policy would take every failure for permanent.
//!
//! The queue's state decides which attempt may reset a peak, because it knows the attempts of all threads.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::device::{self, Device, Measurement};
use crate::memory::{self, MemorySource, Usage};
use crate::policy::Sample;

/// Measurements of one attempt, as far as they were needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) elapsed: Option<Duration>,
    pub(crate) peak_bytes: Option<u64>,
    pub(crate) available_bytes: Option<u64>,
    pub(crate) counts_bytes: bool,
    pub(crate) retried: bool,
    pub(crate) leaned: Leaned,
    /// Size that is predicted to fit into the available bytes, in a call that began with a prediction.
    pub(crate) predicted: Option<NonZeroUsize>,
    /// Size that is predicted to fit after a smaller first piece, to continue with. For a policy that measures no
    /// memory.
    pub(crate) explored: Option<NonZeroUsize>,
}

/// Recomputation as the body has reported it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leaned {
    /// Time that the body has spent on recomputation.
    pub(crate) repeated: Duration,
    /// True if the size is worth that time.
    pub(crate) keeps_size: bool,
    /// True if there are plans, on which the bytes may depend.
    pub(crate) has_plans: bool,
}

impl Measured {
    /// Converts the measurement to a sample. The line fitted through bytes is for sizes that need no recomputation.
    /// Where the size is worth recomputation, the bytes of one plan are no evidence about other sizes.
    pub(crate) fn sample(&self, size: usize) -> Sample {
        let Leaned { repeated, keeps_size, has_plans } = self.leaned;
        let is_no_evidence = self.repeats() || keeps_size && has_plans;
        let repeated = if keeps_size { Duration::ZERO } else { repeated };
        let bytes = self.peak_bytes.filter(|_| !is_no_evidence);
        Sample { size, time: self.elapsed, repeated, bytes }
    }

    /// True if a smaller size might have been faster per item.
    pub(crate) fn repeats(&self) -> bool {
        !self.leaned.repeated.is_zero() && !self.leaned.keeps_size
    }
}

/// An attempt whose memory is measured.
#[derive(Debug)]
pub(crate) struct Begun {
    before: Usage,
    /// Set if this attempt is the one whose peak is measured on the device.
    measurement: Option<Measurement>,
}

impl Begun {
    /// Begins to measure an attempt; `None` if the source counts no bytes.
    ///
    /// A device has one peak: of two attempts that are measured there, only the first resets it.
    pub(crate) fn now(source: &dyn MemorySource, device: Option<&Device>) -> Option<Self> {
        let before = source.usage()?;
        let measurement = device.and_then(Device::measure);
        if measurement.is_some() {
            source.reset_peak();
        }
        Some(Self { before, measurement })
    }

    fn peak_bytes(&self, after: Usage) -> Option<u64> {
        let is_ours =
            self.measurement.is_some() || after.peak_allocated_bytes > self.before.peak_allocated_bytes;
        is_ours.then(|| after.peak_allocated_bytes.saturating_sub(self.before.allocated_bytes))
    }
}

/// Ends the measurement of an attempt.
pub(crate) fn end(source: &dyn MemorySource, begun: Option<Begun>) -> Measured {
    let after = source.usage();
    let mut measured = available(source, after.is_some());
    if let (Some(begun), Some(after)) = (begun, after) {
        measured.peak_bytes = begun.peak_bytes(after);
        measured.retried = after.num_alloc_retries > begun.before.num_alloc_retries;
    }
    measured
}

/// Reads the bytes that could be allocated now.
pub(crate) fn now(source: &dyn MemorySource) -> Measured {
    available(source, source.usage().is_some())
}

fn available(source: &dyn MemorySource, counts_bytes: bool) -> Measured {
    // Counted bytes change with every attempt, so the free bytes are read again.
    let reading = if counts_bytes { source.read().ok() } else { memory::recent(source) };
    let available_bytes = reading.map(|now| device::unpromised(source, now).free_bytes);
    Measured { available_bytes, counts_bytes, ..Measured::default() }
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::{Begun, end, now};
    use crate::device::Device;
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
    fn an_attempt_inside_another_leaves_its_peak_as_it_is() {
        let device = FakeDevice::new(100);
        let queue = Device::of(&device);
        let begin = || Begun::now(&device, Some(&queue));
        let outer = begin();
        drop(device.alloc(50).unwrap());
        let inner = begin();
        drop(device.alloc(20).unwrap());
        assert_eq!(end(&device, inner).peak_bytes, None);
        let inner = begin();
        drop(device.alloc(70).unwrap());
        assert_eq!([inner, outer].map(|begun| end(&device, begun).peak_bytes), [Some(70); 2]);
    }
}
