//! Everything on one program: `cargo xtask run tour`.
//!
//! A net learns handwritten digits by the same steps in each way: plainly, by retries, by pieces of a predicted size,
//! by checkpoints, and by offloading what still does not fit. The losses are the same throughout.

use std::error::Error;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tch::Kind;
use toma::torch::cpu;

use crate::data::{Data, Set};
use crate::learning::learn;

#[path = "train/data.rs"]
#[allow(dead_code, reason = "nothing is tested")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;
#[path = "tour/learning.rs"]
mod learning;
#[path = "tour/net.rs"]
mod net;
#[path = "common/program.rs"]
mod program;
#[path = "tour/way.rs"]
mod way;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Learns digits under one budget in each way that there is, and compares what each takes.
#[derive(Debug, Parser)]
#[command(name = "tour", max_term_width = 100)]
struct Arguments {
    /// Images in a step
    #[arg(long, value_name = "N", default_value = "600")]
    batch: NonZeroUsize,
    /// Steps in each way
    #[arg(long, value_name = "N", default_value = "12")]
    steps: NonZeroUsize,
    /// The budget, in percent of what a plain step takes
    #[arg(long, value_name = "PERCENT", default_value = "60", value_parser = clap::value_parser!(u64).range(1..100))]
    budget: u64,
    /// The budget that checkpoints exceed, too
    #[arg(long, value_name = "PERCENT", default_value = "35", value_parser = clap::value_parser!(u64).range(1..100))]
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
    // Threads of libtorch that wait for a core make times that tell nothing.
    tch::set_num_threads(1);
    let batches = batches(arguments)?;
    let plain = learn(way::STOPS[0].way, None, &batches)?;
    for stop in &way::STOPS {
        let bytes = match stop.room {
            way::Room::Unlimited => None,
            way::Room::Budget => Some(plain.peak_bytes * arguments.budget / 100),
            way::Room::Tight => Some(plain.peak_bytes * arguments.tight / 100),
        };
        let l = learn(stop.way, bytes, &batches)?;
        let d = l.losses.iter().zip(&plain.losses).map(|(a,b)| (a-b).abs()).fold(0.0, f64::max);
        writeln!(to, "{:<22} {:?} {} {:?} oom {} size {} {:?} {d:e} {:?}", stop.name, bytes, l.peak_bytes, l.took, l.out_of_memory, l.size, l.ended, l.losses.last())?;
        if let Some(r) = &l.region { writeln!(to, "{r}")?; }
        if let Some(r) = &l.moved { writeln!(to, "{r}")?; }
        if let Some(r) = &l.recording { writeln!(to, "{r}\n{}", r.lines())?; }
    }
    if let Some(c) = toma::torch::checkpoint::with().name("tour").known() { writeln!(to, "{} {}", c.least_bytes(), c.keep_all_bytes())?; }
    Ok(())
}

/// The same for all ways.
fn batches(arguments: &Arguments) -> Result<Vec<Set>> {
    let data = Data::load(Kind::Float)?;
    tch::manual_seed(7);
    let size = arguments.batch.get();
    if data.training.len() < size {
        return Err(format!("--batch {size}: there are {} images", data.training.len()).into());
    }
    let batches = std::iter::repeat_with(|| data.training.batches(size)).flatten();
    Ok(batches.filter(|batch| batch.len() == size).take(arguments.steps.get()).collect())
}
