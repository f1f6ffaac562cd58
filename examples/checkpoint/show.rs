//! Plans as a table, and the trade-off of bytes against time as a curve.

use std::io::Write;
use std::time::Duration;

use bytesize::ByteSize;
use toma::torch::checkpoint::Point;

use crate::Result;

/// Number of rows of a curve.
const POINTS: usize = 12;
/// Characters of the longest bar.
const WIDTH: f64 = 40.0;

/// A step by one plan.
pub(crate) struct Row {
    pub(crate) name: String,
    /// Bytes and time as planned; a plain step has no plan.
    pub(crate) predicted: Option<(u64, Duration)>,
    pub(crate) peak_bytes: u64,
    pub(crate) took: Duration,
    pub(crate) loss: f64,
}

pub(crate) fn write_rows(rows: &[Row], to: &mut dyn Write) -> Result<()> {
    writeln!(
        to,
        "{:<22} {:>11} {:>11} {:>9} {:>9} {:>8}",
        "", "planned", "measured", "planned", "measured", "steps/s"
    )?;
    for row in rows {
        let (bytes, time) = row.predicted.unzip();
        let bytes = bytes.map_or(String::new(), |bytes| ByteSize(bytes).to_string());
        let time = time.map_or(String::new(), seconds);
        let (peak, took, rate) = (ByteSize(row.peak_bytes), seconds(row.took), 1.0 / row.took.as_secs_f64());
        let peak = peak.to_string();
        writeln!(to, "{:<22} {bytes:>11} {peak:>11} {time:>9} {took:>9} {rate:>8.3}", row.name)?;
    }
    Ok(())
}

fn seconds(duration: Duration) -> String {
    format!("{:.3} s", duration.as_secs_f64())
}

/// Some of the points, evenly spaced, with the first and the last.
fn some<T>(points: &[T]) -> impl Iterator<Item = &T> {
    let shown = points.len().min(POINTS);
    (0..shown).map(move |at| &points[at * (points.len() - 1) / (shown - 1).max(1)])
}

/// Writes some of the points, each with a bar whose length shows its bytes.
pub(crate) fn write_curve(points: &[Point], plain_seconds: f64, to: &mut dyn Write) -> Result<()> {
    let most = points.last().map_or(1, |point| point.bytes);
    for point in some(points) {
        let [more, bound] = [point.seconds, point.bound_seconds].map(|it| (it / plain_seconds - 1.0) * 100.0);
        let (bytes, bar) = (ByteSize(point.bytes).to_string(), bar(point.bytes, most));
        writeln!(to, "{bytes:>11}  +{more:>4.1} % (bound {bound:>4.1} %)  {bar}")?;
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few signs"
)]
fn bar(bytes: u64, most: u64) -> String {
    "#".repeat((bytes as f64 / most as f64 * WIDTH).round() as usize)
}

#[cfg(test)]
mod tests {
    use super::some;

    #[test]
    fn a_curve_keeps_its_first_and_its_last_point() {
        for length in 0..100 {
            let points: Vec<usize> = (0..length).collect();
            let shown: Vec<usize> = some(&points).copied().collect();
            assert_eq!((shown.first(), shown.last()), (points.first(), points.last()));
            assert_eq!(shown.len(), length.min(super::POINTS));
            assert!(shown.is_sorted_by(|a, b| a < b), "{shown:?}");
        }
    }
}
