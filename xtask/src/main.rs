//! Set-up and checks of toma: `cargo xtask --help` lists the commands.

mod bench;
mod check;
mod demo;
mod examples;
mod handover;
mod metadata;
mod project;
mod setup;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

use crate::setup::torch::Build;

const ENVIRONMENT: &str = "\
If LIBTORCH or LIBTORCH_USE_PYTORCH is set, that libtorch is used; it must be 2.11.0, unless you set
LIBTORCH_BYPASS_VERSION_CHECK. Otherwise one is installed, which needs Linux, a C++ compiler, and Python 3.10 to 3.14
with venv and pip. Only `run` and `demo` pass TOMA_* variables on.";

/// Set-up and checks of toma.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", after_help = ENVIRONMENT, max_term_width = 120, disable_help_subcommand = true)]
struct Line {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    libtorch: Libtorch,
}

// Which libtorch to install where one is needed. A doc comment would become the program's own.
#[derive(Args, Clone, Copy, Debug)]
struct Libtorch {
    /// Install libtorch for the CPU if one is needed: 540 MB to download
    #[arg(long, global = true, conflicts_with = "cuda")]
    cpu: bool,
    /// Install libtorch for GPUs: 2.7 GB to download; the default if there is an NVIDIA driver
    #[arg(long, global = true)]
    cuda: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// See toma at work: run the examples of the demonstration, or the named ones
    Demo(demo::Demo),
    /// Run an example with the libtorch and the files it needs; paths in ARGS are relative to your current folder
    Run(demo::Run),
    /// Run every check, or only the named steps, and print a table
    Test(check::Test),
    /// Run every benchmark, or the named one
    Bench(bench::Bench),
    /// Run checks that take too long for `test`
    Nightly(check::Nightly),
    /// Put checks and benchmarks into one folder with a script `run`, for a machine with a GPU
    GpuBundle(bench::bundle::GpuBundle),
    /// Install libtorch into the target folder and print the variables to use it, or run any cargo command with
    /// it: `cargo xtask torch -- test -p toma-torch`
    Torch(setup::torch::Torch),
    /// Build the paper card, on which libtorch's CUDA part runs without a GPU, and print the variables to use it, or
    /// run any cargo command with it: `cargo xtask card -- test -p toma-torch --test gpu`
    Card(setup::torch::card::Card),
}

fn main() -> ExitCode {
    run(Line::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run(Line { command, libtorch }: Line) -> Result<ExitCode> {
    let build = match libtorch {
        Libtorch { cpu: true, .. } => Some(Build::Cpu),
        Libtorch { cuda: true, .. } => Some(Build::Cuda),
        Libtorch { .. } => None,
    };
    match command {
        Command::Demo(demo) => demo.run(build),
        Command::Run(run) => run.run(build),
        Command::Test(test) => test.run(build),
        Command::Nightly(nightly) => nightly.run(build),
        Command::Bench(bench) => bench.run(build),
        Command::GpuBundle(bundle) => bundle.run(),
        Command::Torch(torch) => torch.run(build),
        Command::Card(card) => card.run(build),
    }
}
