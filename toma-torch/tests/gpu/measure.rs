//! Medians, and how they are printed.

use std::time::{Duration, Instant};

const ROUNDS: usize = 51;

/// Returns the median time of `work`, after one run that is not measured.
pub(crate) fn median(mut work: impl FnMut()) -> Duration {
    work();
    let mut samples: Vec<_> = (0..ROUNDS).map(|_| time(&mut work)).collect();
    samples.sort();
    samples[ROUNDS / 2]
}

fn time(work: &mut impl FnMut()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Returns the median time of work that is too short for one reading of the clock.
pub(crate) fn median_of_short(mut work: impl FnMut()) -> Duration {
    const TIMES: u32 = 100;
    median(|| (0..TIMES).for_each(|_| work())) / TIMES
}

pub(crate) fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
