//! Nearest neighbors of handwritten digits, in less memory than they need: `cargo xtask demo`.
//!
//! `cargo xtask run quickstart -- 4043` finds those of the first 4,043 images only.

use std::collections::TryReserveError;
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use toma::memory::{set_cpu_memory_limit, used_bytes};
use toma::observe::{ProgressBar, everywhere};
use toma::report::Report;

use crate::digits::{COPIES, Digits, Image};

mod digits;

/// Finds the nearest neighbor of each of the images `start..end` among all images.
///
/// Written as if memory were endless: the distances from all of `start..end` to all images are in memory at once. Each
/// pass calls it once, for more images than fit. The attribute then runs it on parts that fit, and remembers their size
/// for the next call.
#[toma::range]
fn find_nearest(
    start: usize,
    end: usize,
    images: &[Image],
    nearest: &mut [usize],
) -> Result<(), TryReserveError> {
    let mut distances: Vec<f32> = Vec::new();
    distances.try_reserve_exact((end - start) * images.len())?;
    for image in &images[start..end] {
        distances.extend(images.iter().map(|other| squared_distance(image, other)));
    }
    for (i, row) in (start..end).zip(distances.chunks_exact(images.len())) {
        nearest[i] = nearest_of_another_digit(i, row);
    }
    Ok(())
}

fn squared_distance(a: &Image, b: &Image) -> f32 {
    // At most 64 × 16² = 16384, which an i16 holds.
    let sum: i16 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    f32::from(sum)
}

/// Ignores all copies of the same original, because finding one of them would be trivial.
fn nearest_of_another_digit(i: usize, distances: &[f32]) -> usize {
    let others = distances.iter().enumerate().filter(|(j, _)| j / COPIES != i / COPIES);
    others.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(i, |(j, _)| j)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let Digits { images, classes } = Digits::load()?;
    let count = std::env::args().nth(1).map_or(Ok(images.len()), |count| count.parse::<usize>())?;
    let count = count.min(images.len());
    let mut nearest = vec![0; count];
    introduce(count, images.len());
    // A real limit: the system itself refuses memory beyond it.
    let _limit = set_cpu_memory_limit(used_bytes()? + (limit_mebibytes(count, images.len()) << 20))
        .map_err(|error| format!("cannot limit the memory of this process, which needs Linux: {error}"))?;
    // Receives events of every call of the program: prints each shrink as it happens, and draws the bar.
    let _bar = everywhere(ProgressBar::new());
    let mut pass = |title: &str| {
        println!("\n{title}");
        let begin = Instant::now();
        find_nearest(0, count, &images, &mut nearest)?;
        let seconds = begin.elapsed().as_secs_f64();
        let accuracy = accuracy(&nearest, &classes);
        println!("  accuracy: {accuracy:.4} after {seconds:.1} s");
        check_accuracy(accuracy)?;
        let report = toma::report::last().ok_or("there is no report")?;
        println!("  report:   {}", report.to_string().replace('\n', "\n          "));
        Ok::<Report, Box<dyn Error>>(report)
    };
    let first = pass("First pass: nothing is known yet.")?;
    let second = pass("Second pass: the size that worked is known.")?;
    check(&first, &second, count)?;
    println!("\nThe second pass started at the remembered size and never ran out of memory.");
    Ok(())
}

fn introduce(count: usize, images: usize) {
    let (distances, limit) = (mebibytes(count, images), limit_mebibytes(count, images));
    println!("Nearest neighbors of handwritten digits, in less memory than they ask for");
    println!();
    println!("  images:   {images}, from {} real digits: each as it is, and moved by one", images / COPIES);
    println!("            pixel in all 8 directions");
    println!("  task:     for {count} of them the nearest among those of all other digits, its own");
    println!("            moved copies left out; the accuracy is how often both show the same");
    println!("  memory:   all distances at once are {distances} MiB of f32, and this process may");
    println!("            take {limit} MiB more than it has now");
}

/// Memory for all distances from `count` images.
fn mebibytes(count: usize, images: usize) -> u64 {
    ((count * images * size_of::<f32>()) as u64).div_ceil(1 << 20)
}

/// Room for a quarter of the distances, and for everything else.
fn limit_mebibytes(count: usize, images: usize) -> u64 {
    mebibytes(count, images) / 4 + 7
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand are exact")]
fn accuracy(nearest: &[usize], classes: &[u8]) -> f64 {
    let right = nearest.iter().zip(classes).filter(|&(&j, class)| classes[j] == *class).count();
    right as f64 / nearest.len() as f64
}

/// This example is a test as well, so it checks its own results.
fn check_accuracy(accuracy: f64) -> Result<(), String> {
    if (0.98..0.99).contains(&accuracy) {
        return Ok(());
    }
    Err(format!("accuracy {accuracy}: must be at least 0.98 and less than 0.99"))
}

/// The starting sizes distinguish the passes: a second pass without failures may have had more memory.
fn check(first: &Report, second: &Report, count: usize) -> Result<(), String> {
    if (first.remembered, first.start) != (None, count) || first.out_of_memory < 2 {
        return Err(format!("first pass: must start at {count}, and run out of memory twice\n{first}"));
    }
    let settled = first.settled.ok_or_else(|| format!("first pass: must settle\n{first}"))?;
    if (second.remembered, second.start) != (Some(settled), settled) || second.out_of_memory > 0 {
        return Err(format!("second pass: must start at {settled}, and never run out of memory\n{second}"));
    }
    Ok(())
}
