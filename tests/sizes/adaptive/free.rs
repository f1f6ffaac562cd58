//! Measurements are made only for policies that need them, and memory is read only if it has a name.

use std::cell::Cell;
use std::io;

use toma::memory::{MemorySource, Reading, Usage};
use toma::policy::{Evidence, Needs, Policy};
use toma::testing::FakeDevice;
use toma::{Bisect, Decay, Halve, NoCache, execute};

/// A memory that must not be read.
#[derive(Debug)]
struct Untouchable;

impl MemorySource for Untouchable {
    fn name(&self) -> &'static str {
        "untouchable"
    }

    fn read(&self) -> io::Result<Reading> {
        panic!("the memory was read")
    }

    fn usage(&self) -> Option<Usage> {
        panic!("the memory was asked for its usage")
    }

    fn reset_peak(&self) {
        panic!("the peak was reset")
    }
}

/// A policy that needs nothing.
#[derive(Debug)]
struct Timeless;

impl Policy for Timeless {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        assert!(evidence.elapsed.is_none() && evidence.measurements.time().is_zero(), "{evidence:?}");
        evidence.step
    }
}

#[test]
fn nothing_is_measured_for_them() {
    let policies: [Box<dyn Policy>; 4] =
        [Box::new(Halve), Box::new(Decay::new(0.5)), Box::new(Bisect::default()), Box::new(Timeless)];
    for policy in policies {
        execute::with::<NoCache>().policy(policy).device(&Untouchable).range(0..100, 10, |_start, _end| ());
    }
}

/// A policy that halves, and records whether the evidence contained bytes available for allocation.
#[derive(Debug, Default)]
struct Received(Cell<Option<bool>>);

impl Policy for Received {
    fn shrink(&self, evidence: &Evidence) -> usize {
        self.advance(evidence) / 2
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        let received = evidence.available_bytes.is_some() || evidence.counts_bytes;
        self.0.set(Some(self.0.get().unwrap_or_default() | received));
        evidence.size
    }

    fn needs(&self) -> Needs {
        Needs::TIME_AND_MEMORY
    }
}

#[test]
fn the_host_is_not_taken_for_the_memory_that_runs_out() {
    let device = FakeDevice::new(40);
    let received = [true, false].map(|is_named| {
        let (cache, received) = (toma::GlobalCache::new(), Received::default());
        // First cold, then with the remembered size.
        for _ in 0..2 {
            let with = execute::with::<NoCache>().cache(&cache).policy(&received);
            let with = if is_named { with.device(&device) } else { with };
            with.range(0..1000, 64, |start, end| device.alloc((end - start) as u64).map(drop)).unwrap();
        }
        received.0.get()
    });
    assert_eq!(received, [Some(true), Some(false)]);
}
