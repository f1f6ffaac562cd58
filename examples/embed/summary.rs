//! Summary of a run, for people.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use toma::report::Report;

/// The reports of a run's calls; `Display` prints a few lines.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Reports with the maximum number of tokens of their texts.
    pub(crate) reports: Vec<(u64, Report)>,
}

impl Summary {
    pub(crate) fn reports(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().map(|(_, report)| report)
    }

    /// Reports by the maximum number of tokens of their texts, longest first.
    fn buckets(&self) -> BTreeMap<Reverse<u64>, Vec<&Report>> {
        let mut buckets = BTreeMap::<_, Vec<_>>::new();
        self.reports.iter().for_each(|(most, of)| buckets.entry(Reverse(*most)).or_default().push(of));
        buckets
    }

    pub(crate) fn lines(&self) -> usize {
        self.reports().map(|report| report.done).sum()
    }

    pub(crate) fn out_of_memory(&self) -> usize {
        self.reports().map(|report| report.out_of_memory).sum()
    }

    /// Seconds in all attempts, which the engine only counts with an observer.
    pub(crate) fn seconds(&self) -> f64 {
        self.reports().filter_map(|report| report.time).sum::<Duration>().as_secs_f64()
    }

    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub(crate) fn lines_per_second(&self) -> f64 {
        self.lines() as f64 / self.seconds().max(1e-9)
    }

    /// Time lost to failed attempts, and its share of the total.
    pub(crate) fn lost(&self) -> String {
        let lost = self.reports().map(|report| report.time_lost).sum::<Duration>().as_secs_f64();
        format!("{lost:.2} s ({:.1} %)", 100.0 * lost / self.seconds().max(1e-9))
    }

    /// The final batch sizes, longest texts first.
    pub(crate) fn sizes(&self) -> String {
        self.buckets().values().map(|reports| last_size(reports).to_string()).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lines, seconds, speed) = (self.lines(), self.seconds(), self.lines_per_second());
        let failed = times(self.out_of_memory());
        writeln!(f, "{lines} lines in {seconds:.1} s, {speed:.0} lines/s, {failed} out of memory")?;
        if self.out_of_memory() > 0 {
            writeln!(f, "  lost to failed attempts: {}", self.lost())?;
        }
        for (Reverse(most_tokens), reports) in self.buckets() {
            let lines: usize = reports.iter().map(|report| report.done).sum();
            let failed = times(reports.iter().map(|report| report.out_of_memory).sum());
            write!(f, "  up to {most_tokens:>3} tokens: {lines:>6} lines, ")?;
            writeln!(f, "batches of {:>4} tokens, {failed} out of memory", last_size(&reports))?;
        }
        Ok(())
    }
}

/// The final size.
fn last_size(reports: &[&Report]) -> usize {
    reports.last().map_or(0, |report| report.tried.last().map_or(report.start, |tried| tried.size))
}

fn times(number: usize) -> String {
    match number {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        number => format!("{number} times"),
    }
}
