//! One row for each stop of the tour, and the check of its result.

use std::fmt;

use bytesize::ByteSize;

use crate::Result;
use crate::learning::Learned;
use crate::way::{Expected, Stop};

/// Tolerance of each loss, because pieces are summed in another order than a batch, and in f32.
pub(crate) const TOLERANCE: f64 = 1e-5;

pub(crate) const COLUMNS: [&str; 7] =
    ["", "budget", "peak", "out of memory", "images a piece", "seconds", "loss differs"];

/// A stop, and its result.
pub(crate) struct Row {
    pub(crate) stop: &'static Stop,
    pub(crate) budget: Option<u64>,
    pub(crate) learned: Learned,
    /// Largest difference of a loss from the first stop's at the same step. None if memory ran out for good.
    difference: Option<f64>,
}

impl Row {
    /// Creates a row and compares it with the first row, unless it is that one.
    pub(crate) fn new(
        stop: &'static Stop,
        budget: Option<u64>,
        learned: Learned,
        first: Option<&Learned>,
    ) -> Self {
        let expected = &first.unwrap_or(&learned).losses;
        let differences = learned.losses.iter().zip(expected).map(|(loss, first)| (loss - first).abs());
        // In this order NaN is larger than every number, so it is never ignored.
        let largest = differences.max_by(f64::total_cmp).unwrap_or(f64::NAN);
        let difference = learned.ended.is_none().then_some(largest);
        Self { stop, budget, learned, difference }
    }

    /// One cell for each of the [columns](COLUMNS).
    pub(crate) fn cells(&self) -> [String; 7] {
        let Self { stop, budget, learned, difference } = self;
        let size = |bytes| ByteSize(bytes).to_string();
        [
            stop.name.to_owned(),
            budget.map_or_else(String::new, size),
            size(learned.peak_bytes),
            learned.out_of_memory.to_string(),
            learned.size.to_string(),
            format!("{:.1}", learned.took.as_secs_f64()),
            match difference {
                None => "ended".to_owned(),
                Some(0.0) => "equal".to_owned(),
                Some(difference) => format!("{difference:.1e}"),
            },
        ]
    }

    /// This example is a test as well, so it checks its own results.
    pub(crate) fn check(&self) -> Result<()> {
        let Learned { out_of_memory, peak_bytes, .. } = self.learned;
        if self.budget.is_some_and(|budget| peak_bytes > budget) {
            return Err(self.wrong("the budget is exceeded"));
        }
        let is_within = self.difference.is_some_and(|difference| difference <= TOLERANCE);
        let is_right = match self.stop.expected {
            Expected::SameBits => self.difference == Some(0.0) && out_of_memory == 0,
            Expected::Pieces => is_within && out_of_memory == 0,
            Expected::PiecesAfterFailures => is_within && out_of_memory > 0,
            Expected::OutOfMemory => self.learned.ended.is_some(),
        };
        if is_right { Ok(()) } else { Err(self.wrong(self.stop.expected)) }
    }

    fn wrong(&self, why: impl fmt::Display) -> Box<dyn std::error::Error> {
        let ended = self.learned.ended.as_ref().map_or_else(String::new, |ended| format!("; {ended}"));
        let [name, figures @ ..] = self.cells();
        let named = COLUMNS[1..].iter().zip(figures).map(|(column, figure)| format!("{column} {figure}"));
        format!("{name}: {why}: {}{ended}", named.collect::<Vec<_>>().join(", ")).into()
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameBits => {
                f.write_str("must have the losses of the first row, and never run out of memory")
            }
            Self::Pieces => {
                write!(f, "losses must differ by at most {TOLERANCE:e}, and memory must never run out")
            }
            Self::PiecesAfterFailures => {
                write!(f, "losses must differ by at most {TOLERANCE:e}, after memory has run out")
            }
            Self::OutOfMemory => f.write_str("memory must run out"),
        }
    }
}

/// A line of the table, or its head.
pub(crate) fn line(cells: &[impl AsRef<str>; 7]) -> String {
    let widths = [20, 9, 9, 13, 14, 7, 12];
    let [first, figures @ ..] = cells.each_ref().map(AsRef::as_ref);
    let figures = figures.iter().zip(&widths[1..]).map(|(cell, width)| format!("  {cell:>width$}"));
    format!("{first:<width$}{}", figures.collect::<String>(), width = widths[0])
}
