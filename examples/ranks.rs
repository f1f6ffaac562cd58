//! Processes that train together: `cargo xtask run ranks`.
//!
//! Each process learns from its share of every batch, in memory of its own. If one runs out of memory, all make their
//! pieces smaller, and they learn the same as a single process with the whole batch. Their gradients are summed over
//! the store of the ranks, because they are small; real programs sum them by NCCL or MPI.

use std::error::Error;
use std::num::NonZeroUsize;
use std::process::ExitCode;

use bytesize::ByteSize;
use clap::Parser;

#[path = "train/data.rs"]
#[allow(dead_code, reason = "nothing is tested")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;
#[path = "ranks/learning.rs"]
mod learning;
#[path = "ranks/processes.rs"]
mod processes;
#[path = "common/program.rs"]
mod program;
#[cfg(test)]
#[path = "ranks/tests.rs"]
mod tests;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Processes train together, each in its own memory, and agree on sizes
#[derive(Clone, Debug, Parser)]
#[command(name = "ranks", max_term_width = 100)]
struct Arguments {
    /// Processes
    #[arg(long, value_name = "N", default_value = "4")]
    ranks: NonZeroUsize,
    /// Bytes for tensors of each process in addition to the data; the last value is for all others
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "16MiB,8MiB,4MiB,2MiB")]
    budgets: Vec<ByteSize>,
    /// Images in a step of all processes together
    #[arg(long, value_name = "N", default_value = "900")]
    batch: NonZeroUsize,
    /// Steps
    #[arg(long, value_name = "N", default_value = "6")]
    steps: NonZeroUsize,
    /// Run as one of the processes, and save the weights to this file
    #[arg(long, hide = true)]
    weights: Option<std::path::PathBuf>,
}

impl Arguments {
    fn budget(&self, rank: usize) -> ByteSize {
        let budget = self.budgets.get(rank).or(self.budgets.last());
        budget.copied().unwrap_or(ByteSize(u64::MAX))
    }
}

fn main() -> ExitCode {
    program::ends(|arguments: &Arguments| match &arguments.weights {
        Some(weights) => processes::work(arguments, weights),
        None => processes::compare(arguments, &mut std::io::stdout().lock()),
    })
}
