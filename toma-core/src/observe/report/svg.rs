//! Reports as a picture.
//!
//! Reports become [`Curve`]s, which share the axes of a [`Plane`], and plotters draws both. Nothing overlaps: the
//! legend stands next to the curves.
//!
//! # Why
//!
//! Plotters escapes texts and lays out axes, and needs neither fonts nor bitmaps.

mod curve;
mod draw;
mod plane;
#[cfg(test)]
mod tests;

use self::curve::Curve;
use self::plane::Plane;
use super::Report;
use crate::text::count;

/// Draws the sizes of calls over time, as the text of an SVG file, with the attempts that ran out of memory and the
/// size that each call remembers.
///
/// Reports of one name follow each other on one curve. Each name has a curve of its own, so that calls can be compared,
/// for example the same work with several policies. The x-axis shows the time spent in attempts. If that is not known
/// of all reports, because nothing made the engine read a clock, it counts attempts; its title says which. Sizes are
/// shown by powers of two where they differ by a factor of four or more.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{NoCache, classify::OutOfMemory, execute, report};
///
/// let body = |start, end| if end - start > 128 { Err(OutOfMemory::new(None)) } else { Ok(()) };
/// execute::with::<NoCache>().name("work").range(0..5000, 512, body)?;
/// let picture = report::svg(&report::last());
/// assert!(picture.starts_with("<svg") && picture.contains("work"));
/// # Ok::<(), OutOfMemory>(())
/// ```
pub fn svg<'a>(reports: impl IntoIterator<Item = &'a Report>) -> String {
    let curves = by_name(reports);
    let plane = Plane::of(&curves);
    let title = title(&curves);
    let single = curves.len() == 1;
    let curves = curves.iter().map(|reports| Curve::of(reports, label(reports[0], single), &plane));
    let curves: Vec<Curve> = curves.collect();
    let mut picture = String::new();
    let drawn = draw::draw(&mut picture, &title, &plane, &curves);
    debug_assert!(drawn.is_ok(), "a string takes whatever is drawn: {drawn:?}");
    picture
}

/// Groups reports by name, in the order in which they come.
fn by_name<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Vec<Vec<&'a Report>> {
    let mut curves: Vec<Vec<&Report>> = Vec::new();
    for report in reports {
        match curves.iter_mut().find(|curve| curve[0].name == report.name) {
            Some(curve) => curve.push(report),
            None => curves.push(vec![report]),
        }
    }
    curves
}

/// Letters for which the picture has room, in the title and in the legend.
const IN_TITLE: usize = 112;
const IN_LEGEND: usize = 32;

fn title(curves: &[Vec<&Report>]) -> String {
    let (report, summary) = match curves {
        [] => return "No call".to_owned(),
        [reports] => match &**reports {
            [report] => (report, report.summary()),
            reports => (&reports[0], count(reports.len(), "call")),
        },
        curves => return format!("Sizes of {}", count(curves.concat().len(), "call")),
    };
    format!("{}: {summary}", curve::name(report, IN_TITLE.saturating_sub(summary.len())))
}

/// Returns the legend's name of a curve; a single curve has its name in the title.
fn label(report: &Report, single: bool) -> String {
    if single { "size".to_owned() } else { curve::name(report, IN_LEGEND) }
}
