//! A small net learns handwritten digits, with the same effective batch whatever memory there is:
//! `cargo xtask run train`.
//!
//! A step wants the gradients of 900 images at once. The memory does not hold that, so the images
//! are worked on in pieces, and their gradients added up: gradient accumulation. How large a piece
//! may be is known from a dry run before the first one, not configured.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use tch::Kind;
use tch::nn::{self, OptimizerConfig as _};
use toma::torch::cpu::{self, Budget};

use crate::data::Data;
use crate::net::{Accumulated, Net};

#[path = "train/data.rs"]
#[allow(dead_code, reason = "its batches differ")]
mod data;
#[path = "quickstart/digits.rs"]
mod digits;
#[path = "train/net.rs"]
mod net;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Images per step, whatever size fits.
const EFFECTIVE_BATCH: usize = 900;

const EPOCHS: usize = 10;

/// Bytes in addition to the net and the data; a step of 900 images at once takes about four times that.
const BESIDE: u64 = 8 << 20;

/// Learns handwritten digits in steps of 900 images, in less memory than they take, and checks that
/// the gradients are those of all 900 at once.
#[derive(Debug, Parser)]
#[command(name = "train", max_term_width = 100)]
struct Arguments {}

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(Arguments {}) => {}
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            eprintln!("{}", error.to_string().lines().next().unwrap_or_default());
            return ExitCode::from(2);
        }
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    cpu::count();
    tch::manual_seed(7);
    println!(
        "Learning handwritten digits in steps of {EFFECTIVE_BATCH} images, in less memory than they take\n"
    );
    compare_with_full_batch()?;
    let accuracy = train()?;
    // This example is a test as well, so it checks its own results.
    if accuracy < 0.96 {
        return Err(format!("test accuracy {accuracy:.4}: must be at least 0.96").into());
    }
    Ok(())
}

/// Runs in f64, where rounding hides nothing: pieces of any size give the gradients of the full batch.
fn compare_with_full_batch() -> Result<()> {
    let data = Data::load(Kind::Double)?;
    let net = Net::new(Kind::Double);
    let batch = data.training.batches(EFFECTIVE_BATCH).next().ok_or("there is no batch")?;
    let whole = net.accumulate(&batch)?;
    let right = net.gradients();
    let budget = Budget::beyond_allocated(2 * BESIDE);
    let pieces = net.accumulate(&batch)?;
    drop(budget);
    let both = right.iter().zip(net.gradients());
    let differences = both.map(|(a, b)| (a - b).abs().max().double_value(&[]));
    let differences: Vec<f64> = differences.chain([(whole.loss - pieces.loss).abs()]).collect();
    let worst = differences.iter().copied().fold(0.0, f64::max);
    println!("Check in f64, {EFFECTIVE_BATCH} images at once and in pieces:");
    println!("  {pieces}");
    println!("  loss and gradients differ by at most {worst:.1e}\n");
    // Checks each difference, because the maximum ignores NaN.
    if !differences.iter().all(|difference| *difference <= 1e-12) {
        return Err(format!("difference {worst:e}: must be at most 1e-12").into());
    }
    if (whole.attempts, pieces.attempts > 1, pieces.out_of_memory) != (1, true, 0) {
        return Err(
            format!("{whole}; {pieces}: must be one piece, then several, and never out of memory").into()
        );
    }
    Ok(())
}

fn train() -> Result<f64> {
    let data = Data::load(Kind::Float)?;
    let net = Net::new(Kind::Float);
    let mut optimizer = nn::Adam::default().build(&net.variables, 5e-3)?;
    let budget = Budget::beyond_allocated(BESIDE);
    let allocated_bytes = cpu::allocated_bytes();
    cpu::reset_peak_allocated_bytes();
    println!(
        "Training on {} images, {} test images; tensors may take {} MiB more:",
        data.training.len(),
        data.test.len(),
        BESIDE >> 20
    );
    let mut accuracy = 0.0;
    for epoch in 1..=EPOCHS {
        let mut total = Accumulated::default();
        for batch in data.training.batches(EFFECTIVE_BATCH) {
            total = total.and(&net.accumulate(&batch)?);
            optimizer.step();
        }
        accuracy = net.accuracy(&data.test)?;
        println!("  epoch {epoch}: {total}; test accuracy {accuracy:.4}");
    }
    let peak_bytes = cpu::peak_allocated_bytes() - allocated_bytes;
    println!("  peak: {peak_bytes} of {BESIDE} bytes");
    drop(budget);
    Ok(accuracy)
}
