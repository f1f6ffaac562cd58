//! Which line of a training step fills the memory: `cargo xtask run profile`.
//!
//! A small net learns handwritten digits in a budget that is too small for a step of 900 images. The form
//! `backward_step` takes pieces that fit; the table says what each line of the net did to the memory.

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Parser;
use tch::nn::{self, Module as _, OptimizerConfig as _};
use tch::{Device, Kind, Tensor};
use toma::torch::backward_step;
use toma::torch::cpu::{self, Budget};
use toma::torch::profile::{Column, Profiler};

use crate::data::Data;

#[path = "train/data.rs"]
#[allow(dead_code, reason = "only training")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Shows which line of a training step fills the memory.
#[derive(Debug, Parser)]
#[command(name = "profile", max_term_width = 100)]
struct Arguments {
    /// Images in a step.
    #[arg(long, default_value = "900")]
    batch: NonZeroUsize,
    /// Bytes that tensors may take beside the net and the data.
    #[arg(long, default_value = "8MiB")]
    budget: ByteSize,
}

/// Two convolutions and a linear layer.
struct Net {
    first: nn::Conv2D,
    second: nn::Conv2D,
    last: nn::Linear,
}

impl Net {
    fn new(root: &nn::Path<'_>) -> Self {
        let padded = nn::ConvConfig { padding: 1, ..nn::ConvConfig::default() };
        Self {
            first: nn::conv2d(root / "first", 1, 16, 3, padded),
            second: nn::conv2d(root / "second", 16, 32, 3, padded),
            last: nn::linear(root / "last", 32 * 4 * 4, 10, nn::LinearConfig::default()),
        }
    }

    #[toma::profile]
    fn loss(&self, images: &Tensor, classes: &Tensor) -> Tensor {
        let edges = self.first.forward(images).relu();
        let shapes = self.second.forward(&edges).relu();
        let pooled = shapes.max_pool2d_default(2).flatten(1, -1);
        self.last.forward(&pooled).cross_entropy_for_logits(classes)
    }

    #[toma::profile]
    fn learn(&self, optimizer: &mut nn::Optimizer, images: &Tensor, classes: &Tensor) -> f64 {
        let data = (images, classes);
        let loss = backward_step(optimizer, data, |(images, classes)| self.loss(images, classes));
        loss.double_value(&[])
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(&Arguments { batch, budget }: &Arguments) -> Result<()> {
    cpu::count();
    tch::manual_seed(7);
    let data = Data::load(Kind::Float)?;
    let variables = nn::VarStore::new(Device::Cpu);
    let net = Net::new(&variables.root());
    let mut optimizer = nn::Adam::default().build(&variables, 5e-3)?;
    let images = data.training.batches(batch.get()).next().ok_or("there is no batch")?;
    let _budget = Budget::beyond_allocated(budget.as_u64());
    let profiling = Profiler::new().start()?;
    for step in 1..=3 {
        let loss = net.learn(&mut optimizer, &images.images, &images.classes);
        println!("step {step}: loss {loss:.4}");
    }
    let recording = profiling.finish();
    println!("\n{}", recording.lines());
    let columns = [Column::Rise, Column::Allocated, Column::Freed, Column::Kept, Column::Hits];
    println!("{}", recording.lines().function("loss").columns(columns));
    Ok(())
}
