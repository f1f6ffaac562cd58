//! The work of one thread: calls in every form, whose rows it checks.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fastrand::Rng;
use tch::{Kind, TchError, Tensor};
use toma::cache::SizeCache;
use toma::classify::Class;
use toma::device::Ladder;
use toma::policy::Policy;
use toma::{Adaptive, Bisect, Decay, Halve, Throughput};
use toma::{NoCache, execute};
use toma_torch::cpu::FailingAllocation;

use super::World;
use super::log::Log;
use super::mishap;
use super::rows::{ROWS, numbered, numbers, plain, with_tensors};
use crate::ground;
use crate::nets::{ROADS, Road};
use crate::stage::{caught, printed, size};

/// A thread with tensors of its own, which it holds all the time.
pub(super) struct Worker<'w> {
    world: &'w World,
    thread: usize,
    random: RefCell<Rng>,
    device: toma_torch::Device,
    input: Tensor,
    output: Tensor,
    weight: Tensor,
    /// True after a failure that ends everything: no attempt may follow.
    ends: Cell<bool>,
}

/// Makes an inline form with random options.
macro_rules! with {
    ($worker:expr) => {{
        let form = execute::with::<NoCache>().cache($worker.cache()).policy($worker.policy());
        let form = form.key($worker.up_to(3));
        let form = form.ladder($worker.ladder()).observer($worker.world);
        if $worker.up_to(8) == 0 { form } else { form.device(&$worker.device) }
    }};
}

/// A wait that should never last so long.
pub(super) const LONG: Duration = Duration::from_secs(20);

impl<'w> Worker<'w> {
    pub(super) fn new(world: &'w World, thread: usize, random: Rng) -> Self {
        let input = numbered();
        let output = Tensor::zeros([size(ROWS)], ground::floats());
        let weight = Tensor::zeros_like(&input).set_requires_grad(true);
        // Makes the gradient, which stays from then on.
        (&weight * &input).sum(Kind::Float).backward();
        let device = toma_torch::Device::new(tch::Device::Cpu);
        let (random, ends) = (RefCell::new(random), Cell::new(false));
        Self { world, thread, random, device, input, output, weight, ends }
    }

    /// Makes a call, and checks its results and attempts.
    pub(super) fn one_call(&mut self) {
        self.ends.set(false);
        let log = Log::new(ROADS[self.up_to(2)]);
        let total = self.up_to(ROWS) + 1;
        let (result, printed) = printed(|| caught(|| self.any_form(total, &log)));
        // A failure that leaves the call is printed once if it is a panic, and nothing else is printed.
        assert_eq!(printed, usize::from(result.is_err()), "{result:?}");
        match result.unwrap_or_else(|panic| Err(TchError::Torch(panic))) {
            Ok(()) => {
                assert!(!self.ends.get(), "the work goes on after a failure that ends everything");
                assert_eq!(log.position.get(), total, "rows are lost");
            }
            Err(error) => self.check_failure(&error.to_string(), &log),
        }
    }

    /// A failure leaves the call if nothing is left to try, or if it ends everything.
    fn check_failure(&self, error: &str, log: &Log) {
        let class = mishap::class_of(error).unwrap_or_else(|| panic!("{error}"));
        let may_give_up = match class {
            Class::OutOfMemory => log.has_failed_alone(),
            Class::Transient => log.has_failed_twice(),
            _ => self.ends.get(),
        };
        assert!(may_give_up, "given up too early for {class:?}: {log:?}: {error}");
        self.world.counts.of(class).went_through.fetch_add(1, Relaxed);
    }

    fn any_form(&self, total: usize, log: &Log) -> Result<(), TchError> {
        match self.up_to(6) {
            0 => self.map(0..total, log).map(|values| assert_eq!(values, plain(0..total))),
            1 => self.range(total, log),
            2 => self.chunked(total, log),
            3 => self.one_by_one(total, log),
            4 => self.batch(total, log),
            _ => self.backward(total, log),
        }
    }

    fn map(&self, rows: Range<usize>, log: &Log) -> Result<Vec<f32>, TchError> {
        let first = rows.start;
        let form = with!(self);
        let values = form.map(rows, self.up_to(ROWS) + 1, |start, end| {
            self.attempt(log, start - first..end - first, || {
                Ok(numbers(&with_tensors(&self.rows(start..end), log.road)?))
            })
        })?;
        Ok(values.concat())
    }

    fn range(&self, total: usize, log: &Log) -> Result<(), TchError> {
        let out = RefCell::new(vec![f32::NAN; total]);
        log.leaves_out();
        with!(self).by_cost(|row| row / 16 + 1).range(0..total, 4 * ROWS, |start, end| {
            self.attempt(log, start..end, || {
                let values = numbers(&with_tensors(&self.rows(start..end), log.road)?);
                out.borrow_mut()[start..end].copy_from_slice(&values);
                Ok(())
            })
        })?;
        assert_eq!(out.take(), plain(0..total));
        Ok(())
    }

    fn chunked(&self, total: usize, log: &Log) -> Result<(), TchError> {
        let (input, output) = (self.rows(0..total), self.output.narrow(0, 0, size(total)));
        let initial = self.up_to(ROWS) + 1;
        with!(self).chunked((&input, &output), initial, |(input, output), start, end| {
            self.attempt(log, start..end, || output.shallow_clone().f_copy_(&with_tensors(input, log.road)?))
        })?;
        assert_eq!(numbers(&output), plain(0..total));
        Ok(())
    }

    fn one_by_one(&self, total: usize, log: &Log) -> Result<(), TchError> {
        let body =
            |start, end| self.attempt(log, start..end, || with_tensors(&self.rows(start..end), log.road));
        // Values that are yielded hold memory while the loop continues.
        let values = with!(self).iter(0..total, self.up_to(ROWS) + 1, body);
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let values: Vec<_> = values.iter().flat_map(numbers).collect();
        assert_eq!(values, plain(0..total));
        Ok(())
    }

    /// Runs a loop in a batch: the inner loop gives up, and the batch shrinks.
    fn batch(&self, total: usize, log: &Log) -> Result<(), TchError> {
        let done = with!(self).batch(total, |batch_size| {
            self.attempt(log, 0..batch_size, || {
                let held = with_tensors(&self.rows(0..batch_size), log.road)?;
                let values = self.map(0..batch_size, &Log::new(log.road))?;
                assert_eq!(values, numbers(&held));
                Ok(batch_size)
            })
        })?;
        assert_eq!(log.position.replace(total), done);
        Ok(())
    }

    fn backward(&self, total: usize, log: &Log) -> Result<(), TchError> {
        let done = with!(self).batch(total, |batch_size| {
            self.attempt(log, 0..batch_size, || {
                self.weight.shallow_clone().zero_grad();
                let rows = 0..batch_size;
                let weighted =
                    self.weight.f_narrow(0, 0, size(batch_size))?.f_mul(&self.rows(rows.clone()))?;
                let loss = weighted.f_sum(Kind::Float)?;
                log.road.of(loss.f_backward())?;
                let grad = numbers(&self.weight.grad().narrow(0, 0, size(batch_size)));
                assert_eq!(grad, numbers(&self.rows(rows)));
                Ok(batch_size)
            })
        })?;
        assert_eq!(log.position.replace(total), done);
        Ok(())
    }

    /// Makes an attempt at these rows, which sometimes fails at random: at an allocation, before the work or after it.
    fn attempt<R>(
        &self,
        log: &Log,
        rows: Range<usize>,
        work: impl FnOnce() -> Result<R, TchError>,
    ) -> Result<R, TchError> {
        let _inside = self.world.counts.begin(self.thread);
        assert!(!self.ends.get(), "an attempt follows a failure that ends everything");
        log.begin(&rows);
        let _failing =
            (self.up_to(20) == 0).then(|| FailingAllocation::after(u32::try_from(self.up_to(4)).unwrap()));
        self.mishap(log.road)?;
        if self.up_to(8) == 0 {
            std::thread::yield_now();
        }
        let value = work()?;
        self.mishap(log.road)?;
        log.succeed(&rows);
        Ok(value)
    }

    /// Fails at random, for a cause unrelated to memory.
    fn mishap(&self, road: Road) -> Result<(), TchError> {
        let class = match self.up_to(1000) {
            0..15 => Class::Transient,
            15..17 => Class::Poisoned,
            17..19 => Class::Other,
            _ => return Ok(()),
        };
        self.world.counts.of(class).injected.fetch_add(1, Relaxed);
        self.ends.set(class != Class::Transient);
        road.of(Err(mishap::failure(class)))
    }

    fn ladder(&self) -> Ladder<'static> {
        let ladder = Ladder::default();
        match self.up_to(3) {
            0 => ladder.without_waiting(),
            1 => ladder.wait(Duration::from_micros(self.random.borrow_mut().u64(..8000))),
            _ => ladder.wait(LONG),
        }
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
