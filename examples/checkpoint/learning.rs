//! Learns the digits three times: with all the memory it takes, by halving, and by checkpoints.

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use tch::nn::{self, OptimizerConfig as _};
use tch::{Device, Kind};
use toma::torch::checkpoint;
use toma::torch::cpu::{self, Budget};
use toma::torch::{Backward as _, Loss};
use toma::{GlobalCache, execute, report};

use crate::data::{Data, Set};
use crate::net::Net;
use crate::{Arguments, Result};

const BATCH: usize = 600;
const BUDGET: ByteSize = ByteSize::mib(40);

/// The way in which a step is made to fit.
#[derive(Clone, Copy)]
enum Way {
    /// Without a budget.
    Plain,
    /// In smaller pieces, whose gradients add up.
    Halving,
    /// At once; activations that forward drops are recomputed in backward.
    Checkpoints,
}

/// A net that learns in one of the ways.
struct Learning<'a> {
    way: Way,
    arguments: &'a Arguments,
    net: Net,
    optimizer: nn::Optimizer,
    device: toma::torch::Device,
    /// The size that worked, which the next step starts with.
    sizes: GlobalCache,
}

/// Result of one way.
#[derive(Default)]
struct Learned {
    /// Loss of each step.
    losses: Vec<f64>,
    /// Images that went through the net together, in the last step.
    size: usize,
    out_of_memory: usize,
    peak_bytes: u64,
    took: Duration,
    repeating: Duration,
    accuracy: f64,
}

pub(crate) fn run(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    let data = Data::load(Kind::Float)?;
    let (batch, budget) = (batch(arguments), arguments.budget.unwrap_or(BUDGET));
    writeln!(to, "A residual net learns digits, {batch} in a step; tensors may take {budget} more.\n")?;
    let plain = learn(Way::Plain, arguments, &data)?;
    let halving = learn(Way::Halving, arguments, &data)?;
    let checkpoints = learn(Way::Checkpoints, arguments, &data)?;
    writeln!(
        to,
        "{:<12} {:>5} {:>10} {:>4} {:>8}  {:<13} {:>8}",
        "", "size", "peak", "OOMs", "seconds", "loss", "accuracy"
    )?;
    for (name, learned) in [("no budget", &plain), ("halving", &halving), ("checkpoints", &checkpoints)] {
        learned.write(name, to)?;
    }
    writeln!(
        to,
        "\nThe last step by checkpoints, {:.1} s of repeating in all:",
        checkpoints.repeating.as_secs_f64()
    )?;
    if let Some(last) = checkpoint::last() {
        writeln!(to, "{last}")?;
    }
    check(&plain, &checkpoints)
}

/// This example is a test as well, so it checks its own results.
fn check(plain: &Learned, checkpoints: &Learned) -> Result<()> {
    if plain.losses != checkpoints.losses || plain.accuracy.to_bits() != checkpoints.accuracy.to_bits() {
        return Err("losses by checkpoints are not those of the plain run".into());
    }
    if checkpoints.out_of_memory != 0 {
        return Err(format!("checkpoints ran out of memory {} times", checkpoints.out_of_memory).into());
    }
    Ok(())
}

fn batch(arguments: &Arguments) -> usize {
    arguments.batch.map_or(BATCH, std::num::NonZeroUsize::get)
}

fn learn(way: Way, arguments: &Arguments, data: &Data) -> Result<Learned> {
    // The same weights, and the same order of images.
    tch::manual_seed(7);
    let mut learning = Learning::new(way, arguments)?;
    let batches = std::iter::repeat_with(|| data.training.batches(batch(arguments))).flatten();
    let batches: Vec<_> = batches.take(arguments.steps.get()).collect();
    let budget = arguments.budget.unwrap_or(BUDGET).as_u64();
    let _budget = (!matches!(way, Way::Plain)).then(|| Budget::beyond_allocated(budget));
    let (allocated_bytes, begun) = (cpu::allocated_bytes(), Instant::now());
    cpu::reset_peak_allocated_bytes();
    let mut learned = Learned::default();
    for batch in &batches {
        learning.step(batch, &mut learned)?;
    }
    learned.took = begun.elapsed();
    learned.peak_bytes = cpu::peak_allocated_bytes() - allocated_bytes;
    learned.accuracy = learning.net.accuracy(&data.test);
    Ok(learned)
}

impl<'a> Learning<'a> {
    fn new(way: Way, arguments: &'a Arguments) -> Result<Self> {
        let net = Net::new();
        let optimizer = nn::Adam::default().build(&net.variables, 5e-3)?;
        let device = toma::torch::Device::new(Device::Cpu);
        Ok(Self { way, arguments, net, optimizer, device, sizes: GlobalCache::new() })
    }

    /// Makes the same call in each way; only the context of the body differs.
    fn step(&mut self, batch: &Set, learned: &mut Learned) -> Result<()> {
        let size = Cell::new(0);
        let region = checkpoint::with().solver(self.arguments.solver).name("digits");
        let region = region.enabled(matches!(self.way, Way::Checkpoints));
        let form = execute::with::<GlobalCache>().cache(&self.sizes).device(&self.device).name("step");
        let data = (&batch.images, &batch.classes);
        let loss = form.backward_step(Loss::Mean, &mut self.optimizer, data, |(images, classes)| {
            size.set(images.size()[0]);
            region.f_region(|| self.net.loss(images, classes))
        })?;
        learned.losses.push(loss.double_value(&[]));
        learned.size = usize::try_from(size.get())?;
        learned.out_of_memory += report::last().map_or(0, |report| report.out_of_memory);
        let repeating = checkpoint::last().filter(|_| matches!(self.way, Way::Checkpoints));
        learned.repeating += repeating.map_or(Duration::ZERO, |last| last.repeating());
        Ok(())
    }
}

impl Learned {
    fn write(&self, name: &str, to: &mut dyn Write) -> Result<()> {
        let Self { size, out_of_memory, accuracy, .. } = self;
        let (peak, seconds) = (ByteSize(self.peak_bytes).to_string(), self.took.as_secs_f64());
        let [first, last] =
            [self.losses.first(), self.losses.last()].map(|loss| loss.copied().unwrap_or(f64::NAN));
        let loss = format!("{first:.3} -> {last:.3}");
        writeln!(
            to,
            "{name:<12} {size:>5} {peak:>10} {out_of_memory:>4} {seconds:>8.1}  {loss:<14} {accuracy:>7.4}"
        )?;
        Ok(())
    }
}
