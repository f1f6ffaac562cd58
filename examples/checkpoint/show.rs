//! Plans as a table, and the trade of bytes for time as a curve.

use std::io::Write;
use std::time::Duration;

use bytesize::ByteSize;
use toma::torch::checkpoint::Point;

use crate::Result;

/// Rows of a curve.
const POINTS: usize = 12;
/// Signs of the longest bar.
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

/// Some of the points, each with a bar as long as its bytes.
pub(crate) fn write_curve(points: &[Point], plain_seconds: f64, to: &mut dyn Write) -> Result<()> {
    let most = points.last().map_or(1, |point| point.bytes);
    let step = points.len().div_ceil(POINTS).max(1);
    let chosen = points.iter().rev().step_by(step).collect::<Vec<_>>();
    for point in chosen.into_iter().rev() {
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
