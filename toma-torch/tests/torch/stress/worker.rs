//! What one thread does: calls in every form, whose rows it checks.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use fastrand::Rng;
use tch::{Kind, TchError, Tensor};
use toma::ladder::Ladder;
use toma::policy::{Adaptive, Bisect, Decay, Halve, Policy, Throughput};
use toma::{NoCache, SizeCache, execute};
use toma_torch::cpu::FailingAllocation;

use super::World;
use super::rows::{ROWS, numbered, numbers, plain, with_tensors};
use crate::nets::{ROADS, Road};
use crate::stage::{FLOATS, caught, printed_by, size};

/// A thread with tensors of its own, which it holds all the time.
pub(super) struct Worker<'w> {
    world: &'w World,
    thread: usize,
    random: RefCell<Rng>,
    device: toma_torch::Device,
    input: Tensor,
    output: Tensor,
    weight: Tensor,
}

/// What the attempts of one call have done.
#[derive(Default)]
struct Log {
    position: Cell<usize>,
    /// Rows in the attempt that failed last at this position.
    failed: Cell<Option<usize>>,
    /// A row that runs out of memory alone is left out, and the call fails once all others are done.
    leaves_out: Cell<bool>,
    left_out: Cell<bool>,
    /// Something else than memory was wrong: nothing may follow.
    mistaken: Cell<bool>,
}

/// An inline form with options by chance.
macro_rules! with {
    ($worker:expr, $policy:expr) => {{
        let form = execute::with::<NoCache>().cache($worker.cache()).policy($policy).key($worker.up_to(3));
        // Each size is tried once: what others do on the device is no reason to try it again.
        let form = form.ladder(Ladder::default().without_waiting());
        if $worker.up_to(8) == 0 { form } else { form.device(&$worker.device) }
    }};
}

const MISTAKE: &str = "a mistake of the stress test";

impl<'w> Worker<'w> {
    pub(super) fn new(world: &'w World, thread: usize, random: Rng) -> Self {
        let input = numbered();
        let output = Tensor::zeros([size(ROWS)], FLOATS);
        let weight = Tensor::zeros_like(&input).set_requires_grad(true);
        // Makes the gradient, which is there from now on.
        (&weight * &input).sum(Kind::Float).backward();
        let device = toma_torch::Device::new(tch::Device::Cpu);
        Self { world, thread, random: RefCell::new(random), device, input, output, weight }
    }

    /// Makes a call, and checks what it has done.
    pub(super) fn one_call(&mut self) {
        let log = Log::default();
        let total = self.up_to(ROWS) + 1;
        let road = ROADS[self.up_to(2)];
        let mut result = Ok(Ok(()));
        let printed = printed_by(|| result = caught(|| self.any_form(total, road, &log)));
        // What goes through is printed once when it is a panic, and nothing else is printed.
        assert_eq!(printed, usize::from(result.is_err()), "{result:?}");
        match result.unwrap_or_else(|panic| Err(TchError::Torch(panic))) {
            Ok(()) => assert_eq!(log.position.get(), total, "rows are lost"),
            Err(error) => self.check_failure(&error.to_string(), &log),
        }
    }

    /// A failure goes through where nothing smaller is left, or where it is no matter of memory.
    fn check_failure(&self, error: &str, log: &Log) {
        if error.contains(MISTAKE) {
            assert!(log.mistaken.get());
            self.world.mistakes.fetch_add(1, Relaxed);
            return;
        }
        assert!(error.contains("CPU out of memory"), "{error}");
        let at_last = log.failed.get() == Some(1) || log.left_out.get();
        assert!(at_last, "given up too early, with {:?} rows: {error}", log.failed);
        self.world.gave_up.fetch_add(1, Relaxed);
    }

    fn any_form(&self, total: usize, road: Road, log: &Log) -> Result<(), TchError> {
        match self.up_to(6) {
            0 => self.map(0..total, road, log).map(|values| assert_eq!(values, plain(0..total))),
            1 => self.range(total, road, log),
            2 => self.chunked(total, road, log),
            3 => self.one_by_one(total, road, log),
            4 => self.batch(total, road, log),
            _ => self.backward(total, road, log),
        }
    }

    fn map(&self, rows: Range<usize>, road: Road, log: &Log) -> Result<Vec<f32>, TchError> {
        let (policy, first) = (self.policy(), rows.start);
        let form = with!(self, &*policy);
        let values = form.map(rows, self.up_to(ROWS) + 1, |start, end| {
            self.attempt(log, start - first..end - first, || {
                Ok(numbers(&with_tensors(&self.rows(start..end), road)?))
            })
        })?;
        Ok(values.concat())
    }

    fn range(&self, total: usize, road: Road, log: &Log) -> Result<(), TchError> {
        let policy = self.policy();
        let out = RefCell::new(vec![f32::NAN; total]);
        log.leaves_out.set(true);
        with!(self, &*policy).by_cost(|row| row / 16 + 1).range(0..total, 4 * ROWS, |start, end| {
            self.attempt(log, start..end, || {
                let values = numbers(&with_tensors(&self.rows(start..end), road)?);
                out.borrow_mut()[start..end].copy_from_slice(&values);
                Ok(())
            })
        })?;
        assert_eq!(out.take(), plain(0..total));
        Ok(())
    }

    fn chunked(&self, total: usize, road: Road, log: &Log) -> Result<(), TchError> {
        let policy = self.policy();
        let (input, output) = (self.rows(0..total), self.output.narrow(0, 0, size(total)));
        let initial = self.up_to(ROWS) + 1;
        with!(self, &*policy).chunked((&input, &output), initial, |(input, output), start, end| {
            self.attempt(log, start..end, || output.shallow_clone().f_copy_(&with_tensors(input, road)?))
        })?;
        assert_eq!(numbers(&output), plain(0..total));
        Ok(())
    }

    fn one_by_one(&self, total: usize, road: Road, log: &Log) -> Result<(), TchError> {
        let policy = self.policy();
        let body = |start, end| self.attempt(log, start..end, || with_tensors(&self.rows(start..end), road));
        // Values that are given out hold memory while the work goes on.
        let values = with!(self, &*policy).iter(0..total, self.up_to(ROWS) + 1, body);
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let values: Vec<_> = values.iter().flat_map(numbers).collect();
        assert_eq!(values, plain(0..total));
        Ok(())
    }

    /// A loop in a batch: the inner loop gives up, and the batch shrinks.
    fn batch(&self, total: usize, road: Road, log: &Log) -> Result<(), TchError> {
        let policy = self.policy();
        let done = with!(self, &*policy).batch(total, |batch_size| {
            self.attempt(log, 0..batch_size, || {
                let held = with_tensors(&self.rows(0..batch_size), road)?;
                let values = self.map(0..batch_size, road, &Log::default())?;
                assert_eq!(values, numbers(&held));
                Ok(batch_size)
            })
        })?;
        assert_eq!(log.position.replace(total), done);
        Ok(())
    }

    fn backward(&self, total: usize, road: Road, log: &Log) -> Result<(), TchError> {
        let policy = self.policy();
        let done = with!(self, &*policy).batch(total, |batch_size| {
            self.attempt(log, 0..batch_size, || {
                self.weight.shallow_clone().zero_grad();
                let rows = 0..batch_size;
                let weighted =
                    self.weight.f_narrow(0, 0, size(batch_size))?.f_mul(&self.rows(rows.clone()))?;
                let loss = weighted.f_sum(Kind::Float)?;
                match road {
                    Road::Errors => loss.f_backward()?,
                    Road::Panics => loss.backward(),
                }
                let grad = numbers(&self.weight.grad().narrow(0, 0, size(batch_size)));
                assert_eq!(grad, numbers(&self.rows(rows)));
                Ok(batch_size)
            })
        })?;
        assert_eq!(log.position.replace(total), done);
        Ok(())
    }

    /// An attempt at these rows, which sometimes fails at an allocation for no reason, or by a mistake.
    fn attempt<R>(
        &self,
        log: &Log,
        rows: Range<usize>,
        work: impl FnOnce() -> Result<R, TchError>,
    ) -> Result<R, TchError> {
        self.world.attempts[self.thread].fetch_add(1, Relaxed);
        log.begin(&rows);
        let _failing =
            (self.up_to(20) == 0).then(|| FailingAllocation::after(u32::try_from(self.up_to(4)).unwrap()));
        if self.up_to(400) == 0 {
            log.mistaken.set(true);
            return Err(TchError::Shape(MISTAKE.to_owned()));
        }
        if self.up_to(8) == 0 {
            std::thread::yield_now();
        }
        let value = work().inspect_err(|error| log.mistaken.set(error.to_string().contains(MISTAKE)))?;
        log.succeed(&rows);
        Ok(value)
    }

    fn cache(&self) -> &dyn SizeCache {
        if self.up_to(2) == 0 { &self.world.cache } else { &NoCache }
    }

    fn policy(&self) -> Box<dyn Policy> {
        match self.up_to(5) {
            0 => Box::new(Halve),
            1 => Box::new(Decay::new(0.8)),
            2 => Box::new(Bisect::default()),
            3 => Box::new(Adaptive::default()),
            _ => Box::new(Throughput::default()),
        }
    }

    fn rows(&self, rows: Range<usize>) -> Tensor {
        self.input.narrow(0, size(rows.start), size(rows.len()))
    }

    fn up_to(&self, end: usize) -> usize {
        self.random.borrow_mut().usize(..end)
    }
}

impl Log {
    fn begin(&self, rows: &Range<usize>) {
        assert!(!self.mistaken.get(), "an attempt follows a mistake");
        if self.leaves_out.get() && self.failed.get() == Some(1) {
            self.left_out.set(true);
            self.succeed(&(self.position.get()..self.position.get() + 1));
        }
        assert_eq!(rows.start, self.position.get(), "rows are lost or done twice");
        let smaller = self.failed.get().is_none_or(|failed| rows.len() < failed);
        assert!(smaller, "{rows:?} after {:?} rows failed", self.failed);
        self.failed.set(Some(rows.len()));
    }

    fn succeed(&self, rows: &Range<usize>) {
        self.position.set(rows.end);
        self.failed.set(None);
    }
}
