//! How long something takes: the median of several runs.

use std::time::{Duration, Instant};

pub(crate) fn median(rounds: usize, mut run: impl FnMut()) -> Duration {
    let mut taken: Vec<_> = std::iter::repeat_with(|| {
        let start = Instant::now();
        run();
        start.elapsed()
    })
    .take(rounds)
    .collect();
    taken.sort();
    taken[rounds / 2]
}
