//! Reports as a picture.
//!
//! Reports become [`Curve`]s, the curves a [`Plane`] that says what the axes mean, and plotters draws
//! both. Everything is placed so that nothing overlaps: what explains the curves stands beside them.

mod curve;
mod draw;
mod plane;
#[cfg(test)]
mod tests;

use self::curve::Curve;
use self::plane::Plane;
use super::Report;

/// Draws the sizes of calls over time, as the text of an SVG file: where they ran out of memory, and the
/// size each remembers.
///
/// Several reports give one curve each, to be compared: the same work with several policies, say. Time
/// is that spent in attempts, and where it is not known of all reports, because nobody made the engine
/// read a clock, attempts are counted instead; the axis says which. Sizes are shown by powers of two where
/// they differ by more than a factor of four.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{cache::NoCache, classify::OutOfMemory, execute, report};
///
/// let body = |start, end| if end - start > 128 { Err(OutOfMemory::new(None)) } else { Ok(()) };
/// execute::with::<NoCache>().name("work").range(0..5000, 512, body)?;
/// let picture = report::svg(&report::last());
/// assert!(picture.starts_with("<svg") && picture.contains("work"));
/// # Ok::<(), OutOfMemory>(())
/// ```
pub fn svg<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    let reports: Vec<&Report> = reports.into_iter().collect();
    let plane = Plane::of(&reports);
    let curves = reports.iter().map(|report| Curve::of(report, label(report, reports.len()), &plane));
    let curves: Vec<Curve> = curves.collect();
    let mut picture = String::new();
    let drawn = draw::draw(&mut picture, &title(&reports), &plane, &curves);
    debug_assert!(drawn.is_ok(), "a string takes whatever is drawn: {drawn:?}");
    picture
}

/// Letters that the picture has room for, above the curves and beside them.
const IN_TITLE: usize = 112;
const IN_LEGEND: usize = 32;

fn title(reports: &[&Report]) -> String {
    match reports {
        [] => "No call".to_owned(),
        [report] => {
            let summary = report.summary();
            let left = IN_TITLE.saturating_sub(summary.len());
            format!("{}: {summary}", curve::name(report, left))
        }
        reports => format!("Sizes of {} calls", reports.len()),
    }
}

/// What the legend calls a curve; a single one has its name in the title.
fn label(report: &Report, curves: usize) -> String {
    if curves == 1 { "size".to_owned() } else { curve::name(report, IN_LEGEND) }
}
