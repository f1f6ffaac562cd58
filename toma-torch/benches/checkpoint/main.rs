//! Costs of checkpoints, against pytorch-memonger's partition on ResNet-152, and against plain runs.
//!
//! ```text
//! checkpoint                                  16 images of 224 x 224, five rounds: some ten minutes, 7 GB
//! checkpoint --batch 4 --image 64 --rounds 1  a quick look
//! checkpoint resnet                           one part alone; the other is `overhead`
//! checkpoint --test                           everything once, small
//! ```
//!
//! Times are of the processor, one thread, because a busy machine only adds to them. Each round runs all plans; ratios
//! are medians over rounds, each to the plain step of its round. Page faults, which would cost plain steps most, are
//! avoided: the program starts itself again with an allocator that returns no memory to the system.

use std::env;
use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Parser;
use toma_torch::cpu;

mod clock;
mod net;
mod overhead;
mod plans;
mod resnet;

/// Variables that glibc reads when the process starts.
const ALLOCATOR: [(&str, &str); 3] =
    [("MALLOC_MMAP_MAX_", "0"), ("MALLOC_TRIM_THRESHOLD_", "17179869184"), ("MALLOC_TOP_PAD_", "268435456")];

#[derive(Debug, Parser)]
struct Arguments {
    /// `resnet` or `overhead` [default: both]
    part: Option<String>,
    /// Images in a step
    #[arg(long, default_value_t = 16)]
    batch: i64,
    /// The side of an image
    #[arg(long, default_value_t = 224)]
    image: i64,
    /// How often all plans run
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Everything once, small
    #[arg(long)]
    test: bool,
    /// Passed by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    if ALLOCATOR.iter().any(|(name, value)| env::var(name).ok().as_deref() != Some(*value)) {
        return Err(Command::new(env::current_exe()?)
            .args(env::args_os().skip(1))
            .envs(ALLOCATOR)
            .exec()
            .into());
    }
    let mut arguments = Arguments::parse();
    if arguments.test {
        arguments = Arguments { batch: 2, image: 32, rounds: 1, ..arguments };
    }
    tch::set_num_threads(1);
    cpu::count();
    let runs = |part: &str| arguments.part.as_deref().is_none_or(|name| name == part);
    if runs("overhead") {
        overhead::measure(if arguments.test { 1 } else { 51 })?;
    }
    if runs("resnet") {
        resnet::measure(&arguments)?;
    }
    Ok(())
}

/// Returns "yes" if a figure is within its bar, and "no" otherwise.
fn verdict(figure: f64, most: f64) -> &'static str {
    if figure <= most { "yes" } else { "no" }
}
