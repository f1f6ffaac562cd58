//! Everything on one program: `cargo xtask run tour`.
//!
//! A net learns handwritten digits by the same steps in each way: plainly, by retries, by pieces of a predicted size,
//! by checkpoints, and by offloading tensors that still do not fit. The losses are the same in each way.

use std::error::Error;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use toma::torch::cpu;

#[path = "tour/curve.rs"]
mod curve;
#[path = "train/data.rs"]
#[allow(dead_code, reason = "nothing is tested")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;
#[path = "tour/learning.rs"]
mod learning;
#[path = "tour/limit.rs"]
mod limit;
#[path = "tour/net.rs"]
mod net;
#[path = "tour/page.rs"]
mod page;
#[path = "tour/peak.rs"]
mod peak;
#[path = "common/place.rs"]
mod place;
#[path = "common/program.rs"]
mod program;
#[path = "tour/show.rs"]
mod show;
#[path = "tour/table.rs"]
mod table;
#[cfg(test)]
#[path = "tour/tests.rs"]
mod tests;
#[path = "tour/way.rs"]
mod way;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Learns digits under one budget in each way that there is, and compares their bytes and times.
#[derive(Debug, Parser)]
#[command(name = "tour", max_term_width = 100)]
struct Arguments {
    /// Images in a step
    #[arg(long, value_name = "N", default_value = "600")]
    batch: NonZeroUsize,
    /// Steps in each way
    #[arg(long, value_name = "N", default_value = "20")]
    steps: NonZeroUsize,
    /// The budget, in percent of the bytes of a plain step
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = clap::value_parser!(u64).range(1..100))]
    budget: u64,
    /// The budget that checkpoints exceed, too
    #[arg(long, value_name = "PERCENT", default_value = "20", value_parser = clap::value_parser!(u64).range(1..100))]
    tight: u64,
    /// File for the page with the drawings [default: tour.html beside the program]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn main() -> ExitCode {
    // A panic becomes an error, which is printed.
    std::panic::set_hook(Box::new(|_| {}));
    program::ends(|arguments: &Arguments| run(arguments, &mut io::stdout().lock()))
}

fn run(arguments: &Arguments, to: &mut dyn Write) -> Result<()> {
    // From the first tensor on, so that all are counted.
    cpu::count();
    // Threads of libtorch that wait for a core make times meaningless.
    tch::set_num_threads(1);
    show::show(arguments, to)
}
