//! Two convolutions and a linear layer. Work that runs out of memory is run again on fewer images.

use std::fmt;

use tch::nn::{self, Module as _};
use tch::{Device, Kind, Reduction, TchError, Tensor};
use toma::report::{self, Report};
use toma::torch::{Backward as _, DryRun, Loss};
use toma::{GlobalCache, execute};

use crate::data::Set;

pub(crate) struct Net {
    pub(crate) variables: nn::VarStore,
    layers: nn::Sequential,
    /// The device whose memory runs out.
    device: toma::torch::Device,
    /// The sizes that worked, which the next step starts with.
    sizes: GlobalCache,
}

/// Record of one step, or of several together.
#[derive(Debug, Default)]
pub(crate) struct Accumulated {
    /// Mean over the images.
    pub(crate) loss: f64,
    pub(crate) images: usize,
    pub(crate) attempts: usize,
    pub(crate) out_of_memory: usize,
    /// Images in the last piece that is not a rest.
    size: usize,
}

impl Net {
    /// Creates the net with weights of this number type.
    pub(crate) fn new(kind: Kind) -> Self {
        let mut variables = nn::VarStore::new(Device::Cpu);
        let root = variables.root();
        let padded = nn::ConvConfig { padding: 1, ..nn::ConvConfig::default() };
        let layers = nn::seq()
            .add(nn::conv2d(&root / "1", 1, 16, 3, padded))
            .add_fn(Tensor::relu)
            .add(nn::conv2d(&root / "2", 16, 32, 3, padded))
            .add_fn(|images| images.relu().max_pool2d_default(2).flatten(1, -1))
            .add(nn::linear(&root / "3", 32 * 4 * 4, 10, nn::LinearConfig::default()));
        variables.set_kind(kind);
        let device = toma::torch::Device::new(Device::Cpu);
        Self { variables, layers, device, sizes: GlobalCache::new() }
    }

    /// Sets the gradients to those of the mean loss over all these images, made in pieces that fit. Previous gradients
    /// are replaced.
    pub(crate) fn accumulate(&self, batch: &Set) -> Result<Accumulated, TchError> {
        let mut variables = self.variables.trainable_variables();
        variables.iter_mut().for_each(Tensor::zero_grad);
        let form = execute::with::<GlobalCache>().cache(&self.sizes).device(&self.device).name("step");
        let data = (&batch.images, &batch.classes);
        let loss = form.predict(&DryRun).backward(Loss::Mean, &variables, data, |(images, classes)| {
            let guess = self.layers.forward(images);
            // tch's own short form would compute it in f32.
            guess.f_cross_entropy_loss::<Tensor>(classes, None, Reduction::Mean, -100, 0.0)
        })?;
        let report = report::last().expect("a call has just ended");
        let size = report.tried.last().map_or(report.start, |tried| tried.size);
        let Report { attempts, out_of_memory, .. } = report;
        let loss = loss.f_double_value(&[])?;
        Ok(Accumulated { loss, images: batch.len(), attempts, out_of_memory, size })
    }

    /// The share of images that are recognized.
    pub(crate) fn accuracy(&self, set: &Set) -> Result<f64, TchError> {
        let guesses = execute::with::<GlobalCache>().cache(&self.sizes).device(&self.device).name("test");
        let right = guesses.fold(0..set.len(), set.len(), 0.0, |sum, start, end| {
            let _no_gradients = tch::no_grad_guard();
            let guess = self.layers.forward(&narrow(&set.images, start, end));
            let accuracy = guess.accuracy_for_logits(&narrow(&set.classes, start, end)).double_value(&[]);
            Ok::<f64, TchError>(sum + accuracy * part(start, end, set.len()))
        })?;
        Ok(right)
    }

    pub(crate) fn gradients(&self) -> Vec<Tensor> {
        self.variables.trainable_variables().iter().map(|variable| variable.grad().copy()).collect()
    }
}

/// The weight of a piece in the mean: its share of the images.
#[expect(clippy::cast_precision_loss, reason = "a few thousand are exact")]
fn part(start: usize, end: usize, all: usize) -> f64 {
    (end - start) as f64 / all as f64
}

fn narrow(tensor: &Tensor, start: usize, end: usize) -> Tensor {
    let number = |index: usize| i64::try_from(index).expect("extents of tensors fit in i64");
    tensor.narrow(0, number(start), number(end - start))
}

impl Accumulated {
    /// Combines both, with the size of the later one.
    pub(crate) fn and(&self, next: &Self) -> Self {
        let images = self.images + next.images;
        let loss = self.loss * part(0, self.images, images) + next.loss * part(0, next.images, images);
        let attempts = self.attempts + next.attempts;
        let out_of_memory = self.out_of_memory + next.out_of_memory;
        Self { loss, images, attempts, out_of_memory, size: next.size }
    }
}

impl fmt::Display for Accumulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { loss, attempts, out_of_memory, size, .. } = self;
        write!(f, "loss {loss:.4}, {attempts} pieces of at most {size} images, {out_of_memory} out of memory")
    }
}
