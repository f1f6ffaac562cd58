//! The same batch in less memory: `cargo xtask run checkpoint`.
//!
//! A residual net learns handwritten digits in a budget that its batch does not fit, by smaller pieces and by
//! checkpoints, side by side. Then ResNet-152 takes one step by memonger's plan and one by each plan of toma.

use std::error::Error;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::{Parser, ValueEnum};
use toma::torch::checkpoint::Solver;
use toma::torch::cpu;

#[path = "train/data.rs"]
#[allow(dead_code, reason = "sets are not counted")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;
#[path = "checkpoint/learning.rs"]
mod learning;
#[path = "checkpoint/net.rs"]
mod net;
#[path = "common/program.rs"]
mod program;
#[path = "checkpoint/resnet.rs"]
mod resnet;
#[path = "checkpoint/show.rs"]
mod show;
#[cfg(test)]
#[path = "checkpoint/tests.rs"]
mod tests;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Trains the same batch in less memory: some activations are dropped, and recomputed in backward.
#[derive(Debug, Parser)]
#[command(name = "checkpoint", max_term_width = 100)]
struct Arguments {
    /// The net that learns [default: one after the other]
    #[arg(long)]
    net: Option<Which>,
    /// Images in a step [default: 600 digits, 4 for ResNet-152]
    #[arg(long, value_name = "N")]
    batch: Option<NonZeroUsize>,
    /// The side of the images of ResNet-152
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u16).range(32..))]
    image: u16,
    /// Bytes in addition to the net and its data, such as 40MiB [default: 40 MiB for the digits]
    #[arg(long, value_name = "BYTES")]
    budget: Option<ByteSize>,
    /// Solver that finds the plans: keep-all, sqrt-n, rotor or auto
    #[arg(long, default_value_t)]
    solver: Solver,
    /// Steps of training on the digits
    #[arg(long, value_name = "N", default_value = "110")]
    steps: NonZeroUsize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    Digits,
    Resnet152,
}

fn main() -> ExitCode {
    program::ends(|arguments: &Arguments| run(arguments, &mut io::stdout().lock()))
}

fn run(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    // From the first tensor on, so that the parameters are counted, too.
    cpu::count();
    // Times mean nothing if threads of libtorch wait for a core.
    tch::set_num_threads(1);
    let is_asked = |which| arguments.net.is_none_or(|net| net == which);
    if is_asked(Which::Digits) {
        learning::run(arguments, to)?;
        writeln!(to)?;
    }
    if is_asked(Which::Resnet152) {
        resnet::run(arguments, to)?;
    }
    Ok(())
}
