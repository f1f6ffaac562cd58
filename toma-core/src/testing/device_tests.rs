use std::error::Error;
use std::thread;

use proptest::prelude::*;

use super::{FakeBuffer, FakeDevice};
use crate::classify::OutOfMemory;
use crate::memory::{MemorySource, Reading, recent};

fn reading(device: &FakeDevice) -> (u64, u64) {
    let Reading { free_bytes, total_bytes } = device.read().unwrap();
    (free_bytes, total_bytes)
}

#[test]
fn the_error_has_the_requested_and_the_free_bytes() {
    let device = FakeDevice::new(8192);
    let held = device.alloc(7168).unwrap();
    let error = device.alloc(4096).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fake device out of memory: tried to allocate 4096 bytes, 1024 of 8192 free"
    );
    assert_eq!((error.requested_bytes, error.free_bytes, error.budget_bytes), (4096, 1024, 8192));
    let cause = error.source().and_then(|cause| cause.downcast_ref::<OutOfMemory>());
    assert_eq!(cause, Some(&OutOfMemory::new(Some(4096))));
    assert_eq!((device.allocations(), device.failures(), held.bytes()), (1, 1, 7168));
}

#[test]
fn figures_of_any_size() {
    let device = FakeDevice::new(u64::MAX);
    let most = device.alloc(u64::MAX - 1).unwrap();
    assert!(device.alloc(u64::MAX).is_err());
    assert!(device.alloc(2).is_err());
    assert_eq!(reading(&device), (1, u64::MAX));
    drop(most);
    assert_eq!(device.peak_allocated_bytes(), u64::MAX - 1);
}

#[test]
fn each_device_is_a_memory_of_its_own_and_read_to_the_moment() {
    let (one, other) = (FakeDevice::new(10), FakeDevice::new(20));
    assert_ne!(one.name(), other.name());
    assert_eq!(one.clone().name(), one.name());
    let free = |device: &FakeDevice| recent(device).unwrap().free_bytes;
    assert_eq!((free(&one), free(&other)), (10, 20));
    let buffer = one.alloc(4).unwrap();
    assert_eq!((free(&one), free(&other)), (6, 20));
    drop(buffer);
    assert_eq!(free(&one), 10);
}

#[test]
fn many_threads_never_exceed_the_budget_and_lose_no_byte() {
    // Too little for the three buffers of one thread, even if the other threads happen not to run.
    const BUDGET: u64 = 400;
    let device = FakeDevice::new(BUDGET);
    let succeeded: u64 = thread::scope(|scope| {
        let device = &device;
        let workers: Vec<_> =
            (0..8).map(|worker| scope.spawn(move || churn(&device.clone(), worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!((device.allocations(), device.failures()), (succeeded, 8 * ROUNDS - succeeded));
    assert!(device.peak_allocated_bytes() <= BUDGET);
    assert!(device.failures() > 0, "the budget was never short");
    assert_eq!((device.allocated_bytes(), reading(&device)), (0, (BUDGET, BUDGET)));
}

const ROUNDS: u64 = 5000;

/// Holds up to three buffers at a time; returns how many allocations succeeded.
fn churn(device: &FakeDevice, worker: u64) -> u64 {
    let mut held: Vec<FakeBuffer> = Vec::new();
    let mut succeeded = 0;
    for round in 0..ROUNDS {
        if held.len() == 3 {
            drop(held.remove(0));
        }
        if let Ok(buffer) = device.alloc((round * 7 + worker * 13) % 200 + 1) {
            held.push(buffer);
            succeeded += 1;
        }
    }
    succeeded
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u64),
    Free(usize),
    Budget(u64),
    ResetPeak,
    Release,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..60_u64).prop_map(Step::Alloc),
        3 => (0..10_usize).prop_map(Step::Free),
        1 => (0..200_u64).prop_map(Step::Budget),
        1 => Just(Step::ResetPeak),
        1 => Just(Step::Release),
    ]
}

/// A model that keeps only the buffers, and adds them up each time.
struct Twin {
    budget: u64,
    held: Vec<(u64, FakeBuffer)>,
    peak: u64,
    cached: u64,
    caching: bool,
}

impl Twin {
    fn allocated(&self) -> u64 {
        self.held.iter().map(|(bytes, _)| bytes).sum()
    }

    fn step(&mut self, device: &FakeDevice, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Alloc(bytes) => self.alloc(device, bytes)?,
            Step::Free(_) if self.held.is_empty() => {}
            Step::Free(index) => {
                let (bytes, buffer) = self.held.remove(index % self.held.len());
                drop(buffer);
                self.cached += if self.caching { bytes } else { 0 };
            }
            Step::Budget(bytes) => {
                self.budget = bytes;
                device.set_budget(bytes);
            }
            Step::ResetPeak => {
                self.peak = self.allocated();
                device.reset_peak();
            }
            Step::Release => {
                self.cached = 0;
                device.release_cached_memory();
            }
        }
        self.peak = self.peak.max(self.allocated());
        self.cached = self.cached.min(self.budget.saturating_sub(self.allocated()));
        Ok(())
    }

    fn alloc(&mut self, device: &FakeDevice, bytes: u64) -> Result<(), TestCaseError> {
        let fits = self.allocated() + bytes <= self.budget;
        let result = device.alloc(bytes);
        prop_assert_eq!(result.is_ok(), fits);
        if let Err(error) = &result {
            prop_assert_eq!(error.free_bytes, self.budget.saturating_sub(self.allocated()));
        }
        self.cached = if fits { self.cached.saturating_sub(bytes) } else { 0 };
        self.held.extend(result.ok().map(|buffer| (bytes, buffer)));
        Ok(())
    }
}

proptest! {
    #[test]
    fn accounts_as_the_twin_does(caching: bool, steps in prop::collection::vec(step(), 1..40)) {
        let device = FakeDevice::new(100);
        let device = if caching { device.with_cached_memory() } else { device };
        let mut twin = Twin { budget: 100, held: Vec::new(), peak: 0, cached: 0, caching };
        for step in steps {
            twin.step(&device, step)?;
            prop_assert_eq!(device.budget_bytes(), twin.budget);
            prop_assert_eq!(device.allocated_bytes(), twin.allocated());
            prop_assert_eq!(device.peak_allocated_bytes(), twin.peak);
            prop_assert_eq!(device.reserved_bytes(), twin.allocated() + twin.cached);
            let free = twin.budget.saturating_sub(twin.allocated() + twin.cached);
            let available = twin.budget.saturating_sub(twin.allocated());
            prop_assert_eq!(reading(&device), (available, twin.budget));
            prop_assert_eq!(device.free_bytes(), free);
        }
        drop(twin);
        prop_assert_eq!(device.allocated_bytes(), 0);
    }
}
