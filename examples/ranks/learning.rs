//! The work of each process: a share of each batch, in pieces of the size on which all agree.

use std::fmt;

use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Device, Kind, Reduction, Tensor};
use toma::observe::Answer;
use toma::report::{self, Report};
use toma::torch::ranks::Ranks;
use toma::torch::{Backward as _, Loss};
use toma::{GlobalCache, execute};

use crate::data::Data;
use crate::{Arguments, Result};

/// A net that learns.
pub(crate) struct Learning {
    pub(crate) variables: nn::VarStore,
    layers: nn::Sequential,
    optimizer: nn::Optimizer,
    data: Data,
    device: toma::torch::Device,
    sizes: GlobalCache,
    arguments: Arguments,
}

/// Record of the steps of one process.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Ran {
    pub(crate) attempts: usize,
    pub(crate) out_of_memory: usize,
    /// Attempts repeated because another process ran out of memory.
    pub(crate) elsewhere: usize,
    /// Images in the last piece that is not a rest.
    pub(crate) size: usize,
}

impl Learning {
    /// Uses f64, where rounding hides nothing.
    pub(crate) fn new(arguments: &Arguments) -> Result<Self> {
        tch::manual_seed(7);
        let mut variables = nn::VarStore::new(Device::Cpu);
        let root = variables.root();
        let padded = nn::ConvConfig { padding: 1, ..nn::ConvConfig::default() };
        let layers = nn::seq()
            .add(nn::conv2d(&root / "1", 1, 16, 3, padded))
            .add_fn(|images| images.relu().max_pool2d_default(2).flatten(1, -1))
            .add(nn::linear(&root / "2", 16 * 4 * 4, 10, nn::LinearConfig::default()));
        variables.set_kind(Kind::Double);
        let optimizer = nn::Sgd::default().build(&variables, 0.1)?;
        let (Arguments { ranks, batch, .. }, data) = (arguments, Data::load(Kind::Double)?);
        let images = data.training.len();
        if batch < ranks || batch.get() > images {
            return Err(format!(
                "batch {batch}: must be from {ranks}, the processes, to {images}, the images"
            )
            .into());
        }
        let device = toma::torch::Device::new(Device::Cpu);
        let (sizes, arguments) = (GlobalCache::new(), arguments.clone());
        Ok(Self { variables, layers, optimizer, data, device, sizes, arguments })
    }

    /// Runs one step of all processes. Returns its loss, and the record of this process.
    pub(crate) fn step(&mut self, step: usize, ranks: &Ranks) -> Result<(f64, Ran)> {
        let (images, classes) = self.share(step, ranks);
        let variables = self.variables.trainable_variables();
        self.optimizer.zero_grad();
        let form = execute::with::<GlobalCache>().cache(&self.sizes).device(&self.device).name("step");
        let all = f64::from(u32::try_from(self.arguments.batch.get())?);
        let loss =
            form.ranks(ranks).backward(Loss::Sum, &variables, (&images, &classes), |(images, classes)| {
                let guess = self.layers.forward(images);
                let sum = guess.f_cross_entropy_loss::<Tensor>(classes, None, Reduction::Sum, -100, 0.0)?;
                sum.f_div_scalar(all)
            })?;
        let ran = Ran::of(&report::last().ok_or("a call has just ended")?);
        // The call has returned, so all have succeeded, and now they may wait for each other.
        let losses = summed(ranks, &loss)?;
        for variable in &variables {
            let gradient = variable.grad();
            gradient.shallow_clone().copy_(&summed(ranks, &gradient)?);
        }
        self.optimizer.step();
        Ok((losses.double_value(&[]), ran))
    }

    /// This rank's share of the batch: every n-th image for n ranks.
    fn share(&self, step: usize, ranks: &Ranks) -> (Tensor, Tensor) {
        let number = |size: usize| i64::try_from(size).expect("sizes of batches fit in i64");
        let training = &self.data.training;
        let batches = training.len() / self.arguments.batch;
        let start = number(step % batches.max(1)) * number(self.arguments.batch.get());
        let end = start + number(self.arguments.batch.get());
        let part = |tensor: &Tensor| tensor.slice(0, start + number(ranks.rank()), end, number(ranks.size()));
        (part(&training.images), part(&training.classes))
    }
}

/// The sum of the tensors of all ranks, in the same order everywhere.
fn summed(ranks: &Ranks, tensor: &Tensor) -> Result<Tensor> {
    let values = Vec::<f64>::try_from(tensor.flatten(0, -1))?;
    let shared = ranks.share(values.iter().flat_map(|value| value.to_le_bytes()).collect())?;
    let mut sum = Tensor::zeros_like(tensor);
    for bytes in shared {
        let (values, _) = bytes.as_chunks();
        let values: Vec<f64> = values.iter().map(|value| f64::from_le_bytes(*value)).collect();
        sum += Tensor::from_slice(&values).view_as(tensor);
    }
    Ok(sum)
}

impl Ran {
    fn of(report: &Report) -> Self {
        let follows = |answer: &Option<Answer>| matches!(answer, Some(Answer::Follow { .. }));
        let elsewhere = report.tried.iter().filter(|tried| follows(&tried.answer)).count();
        let size = report.tried.last().map_or(report.start, |tried| tried.size);
        Self { attempts: report.attempts, out_of_memory: report.out_of_memory, elsewhere, size }
    }

    pub(crate) fn and(&self, next: &Self) -> Self {
        Self {
            attempts: self.attempts + next.attempts,
            out_of_memory: self.out_of_memory + next.out_of_memory,
            elsewhere: self.elsewhere + next.elsewhere,
            size: next.size,
        }
    }
}

/// Numbers that [`read`](Self::read) reads.
impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.attempts, self.out_of_memory, self.elsewhere, self.size)
    }
}

impl Ran {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { attempts: next()?, out_of_memory: next()?, elsewhere: next()?, size: next()? })
    }
}
