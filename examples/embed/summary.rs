//! What a run took, for people.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toma::observe::Report;

use crate::buckets::Bucket;
use crate::clock::Spent;

/// Figures of a run; with its `Display` a few lines.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) lines: usize,
    pub(crate) tokens: usize,
    pub(crate) spent: Spent,
    pub(crate) out_of_memory: usize,
    pub(crate) time_lost: Duration,
    /// The most bytes that tensors have held, the model's included.
    pub(crate) peak_bytes: u64,
    /// By their most tokens.
    buckets: BTreeMap<usize, Figures>,
    /// Of all calls, in order.
    pub(crate) reports: Vec<Report>,
}

#[derive(Debug, Default)]
struct Figures {
    lines: usize,
    out_of_memory: usize,
    /// The batch size in force in the end.
    size: usize,
}

impl Summary {
    pub(crate) fn add_bucket(&mut self, bucket: &Bucket, report: Report) {
        self.out_of_memory += report.out_of_memory;
        self.time_lost += report.time_lost;
        let figures = self.buckets.entry(bucket.most_tokens).or_default();
        figures.lines += bucket.range.len();
        figures.out_of_memory += report.out_of_memory;
        figures.size = report.tried.last().map_or(report.start, |tried| tried.size);
        self.reports.push(report);
    }

    pub(crate) fn add_texts(&mut self, lines: usize, tokens: usize, spent: Spent) {
        self.lines += lines;
        self.tokens += tokens;
        self.spent += spent;
    }

    /// Time lost to failed attempts, and its share of all.
    pub(crate) fn lost(&self) -> String {
        let lost = self.time_lost.as_secs_f64();
        let share = 100.0 * lost / self.spent.time.as_secs_f64().max(1e-9);
        format!("{lost:.2} s ({share:.1} %)")
    }

    /// The batch sizes in the end, longest texts first.
    pub(crate) fn sizes(&self) -> String {
        let sizes: Vec<String> =
            self.buckets.values().rev().map(|figures| figures.size.to_string()).collect();
        sizes.join(" ")
    }

    /// One line of a table.
    pub(crate) fn speed(&self) -> String {
        format!(
            "{} lines in {:.1} s, {:.0} lines/s, {:.0} tokens/s, {:.1} s of processor time, {} out of memory",
            self.lines,
            self.spent.time.as_secs_f64(),
            per_second(self.lines, self.spent.time),
            per_second(self.tokens, self.spent.time),
            self.spent.processor.as_secs_f64(),
            times(self.out_of_memory),
        )
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.speed())?;
        if self.out_of_memory > 0 {
            writeln!(f, "  lost to failed attempts: {}", self.lost())?;
        }
        for (most_tokens, Figures { lines, out_of_memory, size }) in self.buckets.iter().rev() {
            let shrinks = times(*out_of_memory);
            writeln!(
                f,
                "  up to {most_tokens:>3} tokens: {lines:>6} lines, batches of {size:>4}, {shrinks} out of memory"
            )?;
        }
        Ok(())
    }
}

fn times(number: usize) -> String {
    match number {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        number => format!("{number} times"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn per_second(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
