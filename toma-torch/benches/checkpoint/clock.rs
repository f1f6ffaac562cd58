//! Processor time, and the median of several figures.

use cpu_time::ProcessTime;

/// Returns the processor time of `work` in seconds, all threads together.
pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let begun = ProcessTime::now();
    work();
    begun.elapsed().as_secs_f64()
}

/// The least, the median and the largest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Sorts the figures, of which there must be at least one.
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let (least, most) = (figures[0], figures[figures.len() - 1]);
        Self { least, median: figures[figures.len() / 2], most }
    }
}
