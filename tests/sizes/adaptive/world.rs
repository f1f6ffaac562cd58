//! A device in simulated time, and the records of a run on it.

use std::cell::RefCell;
use std::sync::Mutex;
use std::time::Duration;

use toma::observe::{Event, EventKind, Observer};
use toma::policy::Policy;
use toma::report::Report;
use toma::testing::{FakeDevice, FakeOutOfMemory, StoppedClock};
use toma::{Adaptive, GlobalCache, execute, report};

use crate::kit::shown::Shown;
pub(crate) use crate::kit::shown::Shows;

pub(crate) const ITEM: u64 = 1000;
/// Bytes that every attempt needs, whatever its size.
pub(crate) const BASE: u64 = 20 * ITEM;

/// Name of the ranges, under which sizes can be seeded.
pub(crate) const NAME: &str = "world";

/// Returns a number of bytes in which `limit` items fit.
pub(crate) fn bytes(limit: usize) -> u64 {
    BASE + limit as u64 * ITEM + ITEM / 2
}

/// Records the attempts, and the sizes reported not to fit.
#[derive(Debug, Default)]
pub(crate) struct Received(pub(crate) Mutex<Vec<String>>);

impl Observer for Received {
    fn observe(&self, event: &Event<'_>) {
        let received = match event.kind {
            EventKind::DoesNotFit { size, .. } => format!("{size} does not fit"),
            EventKind::Attempt { start, end } => format!("{start} to {end}"),
            _ => return,
        };
        self.0.lock().unwrap().push(received);
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) device: FakeDevice,
    pub(crate) source: Shown,
    pub(crate) clock: StoppedClock,
    pub(crate) cache: GlobalCache,
    pub(crate) received: Received,
    /// Sizes of the attempts; true for those that succeeded.
    pub(crate) attempts: RefCell<Vec<(usize, bool)>>,
    lost: RefCell<Duration>,
}

impl World {
    pub(crate) fn new(limit: usize, shows: Shows) -> Self {
        let device = FakeDevice::new(bytes(limit));
        Self {
            source: Shown(device.clone(), shows),
            device,
            clock: StoppedClock::new(),
            cache: GlobalCache::new(),
            received: Received::default(),
            attempts: RefCell::default(),
            lost: RefCell::default(),
        }
    }

    /// Makes an attempt that takes 10 ms and 1 ms per item.
    pub(crate) fn attempt(&self, size: usize) -> Result<(), FakeOutOfMemory> {
        self.attempt_of(size, BASE + size as u64 * ITEM, Duration::from_millis(10 + size as u64))
    }

    /// Makes an attempt that needs `bytes` and takes `time`.
    pub(crate) fn attempt_of(&self, size: usize, bytes: u64, time: Duration) -> Result<(), FakeOutOfMemory> {
        let memory = self.device.alloc(bytes);
        self.clock.advance(time);
        self.attempts.borrow_mut().push((size, memory.is_ok()));
        *self.lost.borrow_mut() += if memory.is_err() { time } else { Duration::ZERO };
        memory.map(drop)
    }

    pub(crate) fn range(&self, items: usize, initial: usize, policy: impl Policy) -> Report {
        self.range_with(items, initial, policy, |_, size| self.attempt(size))
    }

    /// Runs a range whose budget changes to that of `limit` items at attempt `number`.
    pub(crate) fn range_that_moves(&self, number: usize, limit: usize) {
        self.range_with(1_000_000, 4096, Adaptive::default(), |attempt, size| {
            if attempt == number {
                self.device.set_budget(bytes(limit));
            }
            self.attempt(size)
        });
    }

    /// Runs a range whose body gets the number of the attempt and its size.
    pub(crate) fn range_with(
        &self,
        items: usize,
        initial: usize,
        policy: impl Policy,
        mut body: impl FnMut(usize, usize) -> Result<(), FakeOutOfMemory>,
    ) -> Report {
        self.attempts.borrow_mut().clear();
        let (mut number, mut done) = (0, 0);
        let result = self.call(items, initial, policy, |start, end| {
            number += 1;
            assert_eq!(start, done, "an element is left out or done twice");
            body(number, end - start)?;
            done = end;
            Ok(())
        });
        result.expect("a small size fits");
        assert_eq!(done, items);
        report::last().unwrap()
    }

    /// Runs a range. All ranges share this call site.
    pub(crate) fn call(
        &self,
        items: usize,
        initial: usize,
        policy: impl Policy,
        body: impl FnMut(usize, usize) -> Result<(), FakeOutOfMemory>,
    ) -> Result<(), FakeOutOfMemory> {
        let with = execute::with::<GlobalCache>().cache(&self.cache).policy(policy);
        let with = with.observer(&self.received).name(NAME);
        match self.source.1 {
            Shows::Unnamed => with.range(0..items, initial, body),
            _ => with.device(&self.source).range(0..items, initial, body),
        }
    }

    /// Runs one batch and returns the size that succeeded.
    pub(crate) fn batch(&self, initial: usize, policy: impl Policy) -> usize {
        self.batch_with(initial, policy, |size| self.attempt(size))
    }

    /// Runs one batch with this body, and returns the size that succeeded. All batches share this call site.
    pub(crate) fn batch_with(
        &self,
        initial: usize,
        policy: impl Policy,
        mut body: impl FnMut(usize) -> Result<(), FakeOutOfMemory>,
    ) -> usize {
        let with = execute::with::<GlobalCache>().cache(&self.cache).policy(policy);
        let body = |size| body(size).map(|()| size);
        let ended = match self.source.1 {
            Shows::Unnamed => with.batch(initial, body),
            _ => with.device(&self.source).batch(initial, body),
        };
        ended.expect("a small size fits")
    }

    pub(crate) fn failures(&self) -> usize {
        self.attempts.borrow().iter().filter(|(_, succeeded)| !succeeded).count()
    }

    /// Returns the size of the last attempts, leaving out the smaller rest at the end.
    pub(crate) fn last_size(&self) -> usize {
        let attempts = self.attempts.borrow();
        attempts[attempts.len() - 2].0
    }

    pub(crate) fn kept(&self) -> usize {
        self.cache.entries()[0].remembered.settled
    }

    /// Returns the time lost in failed attempts.
    pub(crate) fn lost(&self) -> Duration {
        *self.lost.borrow()
    }
}
