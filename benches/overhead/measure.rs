//! Alternating measurements of two sides.

use std::time::{Duration, Instant};

/// The medians of both sides, and of the pairwise ratios.
pub(crate) struct Pair {
    pub(crate) baseline: Duration,
    pub(crate) ours: Duration,
    pub(crate) ratio: f64,
}

/// Runs both sides `rounds` times each, alternating which goes first.
pub(crate) fn pairs(rounds: usize, mut baseline: impl FnMut(), mut ours: impl FnMut()) -> Pair {
    baseline();
    ours();
    let mut samples = Vec::new();
    for round in 0..rounds {
        samples.push(if round % 2 == 0 {
            let first = time(&mut baseline);
            (first, time(&mut ours))
        } else {
            let first = time(&mut ours);
            (time(&mut baseline), first)
        });
    }
    let ratios = samples.iter().map(|(baseline, ours)| ours.as_secs_f64() / baseline.as_secs_f64());
    Pair {
        ratio: median(ratios.collect(), f64::total_cmp),
        baseline: median(samples.iter().map(|pair| pair.0).collect(), Ord::cmp),
        ours: median(samples.iter().map(|pair| pair.1).collect(), Ord::cmp),
    }
}

impl Pair {
    /// Extra nanoseconds of ours, for each of `times` repetitions in one sample.
    pub(crate) fn overhead_ns(&self, times: u32) -> f64 {
        (self.ours.as_secs_f64() - self.baseline.as_secs_f64()) * 1e9 / f64::from(times)
    }
}

fn time(side: &mut impl FnMut()) -> Duration {
    let start = Instant::now();
    side();
    start.elapsed()
}

pub(crate) fn median<T: Copy>(mut samples: Vec<T>, order: impl FnMut(&T, &T) -> std::cmp::Ordering) -> T {
    samples.sort_by(order);
    samples[samples.len() / 2]
}
