//! Learns the digits in one of the ways: the same weights, the same images, the same steps.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tch::nn::{self, OptimizerConfig as _};
use tch::{Device, Tensor};
use toma::classify::{Class, classify_error};
use toma::predict::is_dry;
use toma::report::{self, Report};
use toma::torch::checkpoint::{self, Plan, Solver};
use toma::torch::cpu;
use toma::torch::offload;
use toma::torch::profile::{Depth, Profiler, Profiling, Recording};
use toma::torch::{Backward as _, DryRun, Loss};
use toma::{GlobalCache, execute};

use crate::Result;
use crate::data::Set;
use crate::limit::Limit;
use crate::net::Net;
use crate::program::first_line;
use crate::way::Way;

/// The name of the region, by which later ways find the measurements of earlier ones.
pub(crate) const REGION: &str = "tour";

/// Result of one way.
#[derive(Default)]
pub(crate) struct Learned {
    /// Loss of each step.
    pub(crate) losses: Vec<f64>,
    pub(crate) peak_bytes: u64,
    pub(crate) took: Duration,
    pub(crate) out_of_memory: usize,
    /// Images in the largest piece of the last step.
    pub(crate) size: usize,
    /// Report of each call of a loop.
    pub(crate) reports: Vec<Report>,
    /// Error that ended it early: it ran out of memory.
    pub(crate) ended: Option<String>,
    /// Recording of the last step, if it was profiled.
    pub(crate) recording: Option<Recording>,
    /// Report of the region in the last step.
    pub(crate) region: Option<checkpoint::Report>,
    pub(crate) moved: Option<offload::Report>,
}

/// A net that learns in one of the ways.
struct Learning {
    way: Way,
    net: Net,
    optimizer: nn::Optimizer,
    device: toma::torch::Device,
    /// The size that worked, which the next step starts with.
    sizes: GlobalCache,
    /// Plan that the way itself has chosen, instead of the region.
    plan: Option<Plan>,
}

/// Learns in one way, with this number of bytes in addition to the allocated ones.
///
/// # Errors
/// All errors except out of memory, which is a result.
pub(crate) fn learn(way: Way, bytes: Option<u64>, batches: &[Set]) -> Result<Learned> {
    let held = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    let limit = Limit::of(way, bytes, batches)?;
    let mut learned = Learned::default();
    let begun = Instant::now();
    if let Err(error) = caught(|| steps(way, batches, &mut learned)) {
        learned.end(&*error)?;
    }
    learned.took = begun.elapsed();
    learned.peak_bytes = cpu::peak_allocated_bytes() - held;
    learned.moved = limit.moved();
    Ok(learned)
}

/// Turns a panic into an error, because tch panics if memory runs out.
fn caught(body: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic.downcast::<String>().map_or_else(|_| "a panic".to_owned(), |text| *text);
        Err(unquoted(&text).into())
    })
}

/// The message of libtorch, without the quotes that tch adds.
fn unquoted(text: &str) -> &str {
    let quoted = text.split_once("Torch(\"").and_then(|(_, rest)| rest.strip_suffix("\")"));
    quoted.unwrap_or(text)
}

fn steps(way: Way, batches: &[Set], learned: &mut Learned) -> Result<()> {
    tch::manual_seed(7);
    let mut learning = Learning::new(way)?;
    let mut profiling = learning.profiler().map(Profiler::start).transpose()?;
    for (at, batch) in batches.iter().enumerate() {
        if let Some(profiling) = profiling.as_mut().filter(|_| at + 1 == batches.len()) {
            profiling.clear();
        }
        let loss = learning.step(batch, learned)?;
        learned.losses.push(loss.double_value(&[]));
    }
    learned.recording = profiling.map(Profiling::finish);
    learned.region = checkpoint::last().filter(|_| way.has_regions());
    Ok(())
}

impl Learning {
    fn new(way: Way) -> Result<Self> {
        let net = Net::new();
        let optimizer = nn::Adam::default().build(&net.variables, 1e-3)?;
        let device = toma::torch::Device::new(Device::Cpu);
        // An earlier way has measured the stages.
        let costs = checkpoint::with().name(REGION).known().filter(|_| way == Way::Offload);
        let plan = costs.map(|costs| costs.plan(costs.least_bytes(), Solver::Auto)).transpose()?;
        Ok(Self { way, net, optimizer, device, sizes: GlobalCache::new(), plan })
    }

    fn profiler(&self) -> Option<Profiler> {
        let profiler = Profiler::new().depth(Depth::Events).variables(&self.net.variables);
        (self.way == Way::Profile).then_some(profiler)
    }

    fn step(&mut self, batch: &Set, learned: &mut Learned) -> Result<Tensor> {
        if self.way == Way::Plain {
            learned.size = batch.len();
            let loss = self.net.loss(&batch.images, &batch.classes);
            self.optimizer.backward_step(&loss);
            return Ok(loss.detach());
        }
        learned.size = 0;
        let loss = self.adaptive_step(batch, &mut learned.size)?;
        let report = report::last().ok_or("a loop leaves a report")?;
        learned.out_of_memory += report.out_of_memory;
        learned.reports.push(report);
        Ok(loss)
    }

    /// Makes the same call in each way; only its options differ, and the context of its body.
    fn adaptive_step(&mut self, batch: &Set, size: &mut usize) -> Result<Tensor> {
        let Self { way, net, optimizer, device, sizes, plan } = self;
        let form = execute::with::<GlobalCache>().cache(sizes).device(device).name(way.name());
        let form = if way.cuts() { form } else { form.min(batch.len()) };
        let form = if way.predicts() { form.predict(&DryRun) } else { form };
        let region = checkpoint::with().name(REGION).enabled(way.has_regions());
        let region = plan.as_ref().map_or(region, |plan| region.plan(plan));
        let data = (&batch.images, &batch.classes);
        let loss = form.backward_step(Loss::Mean, optimizer, data, |(images, classes)| {
            // A dry run learns nothing.
            if !is_dry() {
                *size = (*size).max(length(images));
            }
            region.f_region(|| Ok(net.loss(images, classes)))
        })?;
        Ok(loss)
    }
}

fn length(images: &Tensor) -> usize {
    usize::try_from(images.size()[0]).expect("sizes of tensors are natural numbers")
}

impl Learned {
    /// Records out of memory as a result, and returns every other error.
    fn end(&mut self, error: &(dyn std::error::Error + 'static)) -> Result<()> {
        let text = first_line(&error);
        if classify_error(error).class != Class::OutOfMemory {
            return Err(text.into());
        }
        // A loop has already counted it.
        self.out_of_memory = self.out_of_memory.max(1);
        self.ended = Some(text);
        Ok(())
    }
}
