//! What is measured of an attempt, for policies that ask for it.
//!
//! The peak of a memory is one figure, and resetting it takes it from a measurement that runs there already. So
//! only the first attempt resets it: an attempt inside another one leaves the outer one's peak as it is, and
//! knows its own only when it goes higher. Of attempts beside each other no peak is known. A size that comes out
//! wrong is corrected by what it causes.
//!
//! # Why
//!
//! Without the option `device` no memory is measured. The host's memory does not move when a GPU's does,
//! and a policy would take every failure for lasting.
//!
//! The queue's state decides which attempt may reset a peak, because it knows the attempts of all threads.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::device::{self, Device, Measurement};
use crate::memory::{self, MemorySource, Usage};
use crate::policy::Sample;

/// What was measured of one attempt; nothing that was not asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) elapsed: Option<Duration>,
    pub(crate) peak_bytes: Option<u64>,
    pub(crate) available_bytes: Option<u64>,
    pub(crate) counts_bytes: bool,
    pub(crate) retried: bool,
    pub(crate) told: Told,
    /// What a prediction says fits into them, in a call that one has begun.
    pub(crate) foreseen: Option<NonZeroUsize>,
    /// The same after a first piece that was smaller than predicted to fit, for a policy that measures no memory: the
    /// step to continue with.
    pub(crate) explored: Option<NonZeroUsize>,
}

/// What the body has told of its plans.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// How long it has spent on repeating.
    pub(crate) repeated: Duration,
    /// The size is worth that.
    pub(crate) keeps_size: bool,
    /// There are plans, on which the bytes may depend.
    pub(crate) has_plans: bool,
}

impl Measured {
    /// The line of bytes is to say what needs no repeating. Where the size is worth repeating, the bytes of one plan say
    /// nothing of what fits.
    pub(crate) fn sample(&self, size: usize) -> Sample {
        let Told { repeated, keeps_size, has_plans } = self.told;
        let says_nothing = self.repeats() || keeps_size && has_plans;
        let repeated = if keeps_size { Duration::ZERO } else { repeated };
        let bytes = self.peak_bytes.filter(|_| !says_nothing);
        Sample { size, time: self.elapsed, repeated, bytes }
    }

    /// Whether a smaller size might have been the faster way per item.
    pub(crate) fn repeats(&self) -> bool {
        !self.told.repeated.is_zero() && !self.told.keeps_size
    }
}

/// An attempt whose memory is measured.
#[derive(Debug)]
pub(crate) struct Begun {
    before: Usage,
    /// The attempt is the one whose peak is measured on the device.
    measurement: Option<Measurement>,
}

impl Begun {
    /// An attempt begins; `None` where nothing is counted.
    ///
    /// A peak belongs to its device: of two attempts that are measured there only the first resets it.
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

/// The attempt has ended.
pub(crate) fn end(source: &dyn MemorySource, begun: Option<Begun>) -> Measured {
    let after = source.usage();
    let mut measured = available(source, after.is_some());
    if let (Some(begun), Some(after)) = (begun, after) {
        measured.peak_bytes = begun.peak_bytes(after);
        measured.retried = after.num_alloc_retries > begun.before.num_alloc_retries;
    }
    measured
}

/// What could be allocated now.
pub(crate) fn now(source: &dyn MemorySource) -> Measured {
    available(source, source.usage().is_some())
}

fn available(source: &dyn MemorySource, counts_bytes: bool) -> Measured {
    // What is counted moves with every attempt, and what is free with it.
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
