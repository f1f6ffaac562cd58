//! The axes of a picture, and the coordinates of sizes and times on them.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use crate::observe::report::{Report, Tried};

/// The axes that all curves of a picture share.
#[derive(Debug, PartialEq)]
pub(super) struct Plane {
    /// Name of the x-axis's unit of time, and its length in seconds; `None` if the axis counts attempts.
    unit: Option<AxisUnit>,
    /// The largest figure on the x-axis, in its unit.
    end: f64,
    powers_of_two: bool,
    sizes: Range<f64>,
    /// True if sizes are costs instead of counts of items.
    costs: bool,
    /// True if a history was longer than its recorded part.
    cut: bool,
}

type AxisUnit = (&'static str, f64);

impl Plane {
    pub(super) fn of(curves: &[Vec<&Report>]) -> Self {
        let (unit, end) = across(curves);
        let reports = curves.concat();
        let entries: Vec<Tried> = reports.iter().flat_map(|report| tried(report).into_owned()).collect();
        let settled = reports.iter().filter_map(|report| report.settled);
        let sizes: Vec<usize> = entries.iter().map(|tried| tried.size).chain(settled).collect();
        let (least, most) = (sizes.iter().min().map_or(1, |&least| least.max(1)), sizes.iter().max());
        let (powers_of_two, sizes) = up(least, most.map_or(1, |&most| most.max(1)));
        let kept: usize = entries.iter().map(Tried::attempts).sum();
        let made: usize = reports.iter().map(|report| report.attempts).sum();
        let costs = reports.iter().any(|report| report.sizes_are_costs);
        Self { unit, end, powers_of_two, sizes, costs, cut: kept < made }
    }

    pub(super) fn x(&self, attempts: usize, time: Option<Duration>) -> f64 {
        self.unit.map_or(number(attempts), |(_, seconds)| time.unwrap_or_default().as_secs_f64() / seconds)
    }

    pub(super) fn y(&self, size: usize) -> f64 {
        if self.powers_of_two { number(size.max(1)).log2() } else { number(size) }
    }

    /// A little wider than the curves.
    pub(super) fn x_range(&self) -> Range<f64> {
        0.0..self.end * 1.02
    }

    pub(super) fn y_range(&self) -> Range<f64> {
        if self.powers_of_two {
            self.sizes.start - 0.25..self.sizes.end + 0.25
        } else {
            0.0..self.sizes.end * 1.1
        }
    }

    /// At most so many labels fit, and no label may stand between two possible numbers.
    pub(super) fn x_labels(&self) -> usize {
        if self.unit.is_some() { 10 } else { at_most(self.end + 1.0, 10) }
    }

    pub(super) fn y_labels(&self) -> usize {
        at_most(self.sizes.end - self.sizes.start + 1.0, 14)
    }

    pub(super) fn y_label(&self, y: f64) -> String {
        format!("{:.0}", if self.powers_of_two { y.exp2() } else { y })
    }

    pub(super) fn x_title(&self) -> String {
        let cut = if self.cut { ", the first changes of size only" } else { "" };
        match self.unit {
            None => format!("attempts{cut}"),
            Some((unit, _)) => format!("time spent in attempts ({unit}){cut}"),
        }
    }

    pub(super) fn y_title(&self) -> &'static str {
        if self.costs { "size of an attempt (cost units)" } else { "size of an attempt (items)" }
    }
}

/// Returns the history of a call. That of a call that never failed is empty, so its only entry is made here.
pub(super) fn tried(report: &Report) -> Cow<'_, [Tried]> {
    let Report { attempts, start, time, .. } = *report;
    if report.tried.is_empty() && attempts > 0 {
        return vec![Tried { size: start, succeeded: attempts, time, ..Tried::default() }].into();
    }
    Cow::Borrowed(&report.tried)
}

/// Formats a figure without the digits of rounding errors.
pub(super) fn x_label(x: f64) -> String {
    ((x * 1000.0).round() / 1000.0).to_string()
}

/// Returns the unit of the x-axis and the length of the longest curve: in time if every time of every call is known,
/// otherwise in attempts.
fn across(curves: &[Vec<&Report>]) -> (Option<AxisUnit>, f64) {
    let times = curves.iter().map(|reports| reports.iter().map(|report| time(report)).sum());
    let seconds = times.collect::<Option<Vec<Duration>>>().and_then(|times| times.into_iter().max());
    match seconds.map(|seconds| seconds.as_secs_f64()) {
        Some(seconds) if seconds > 0.0 => {
            let units = [("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];
            let fits = units.into_iter().rev().find(|(_, unit)| seconds >= 2.0 * unit);
            let unit = fits.unwrap_or(units[0]);
            (Some(unit), seconds / unit.1)
        }
        _ => {
            let attempts = |report: &&Report| tried(report).iter().map(Tried::attempts).sum::<usize>();
            let most = curves.iter().map(|reports| reports.iter().map(attempts).sum::<usize>()).max();
            (None, number(most.unwrap_or_default().max(1)))
        }
    }
}

/// Returns the time that the history of a call covers, if it is known.
fn time(report: &Report) -> Option<Duration> {
    let times = tried(report).iter().map(|tried| tried.time).collect::<Option<Vec<_>>>()?;
    Some(times.into_iter().max().unwrap_or_default())
}

/// Returns true if sizes are shown by powers of two, and the range of the y-axis.
fn up(least: usize, most: usize) -> (bool, Range<f64>) {
    if most / least < 4 {
        (false, 0.0..number(most))
    } else {
        (true, number(least).log2().floor()..number(most).log2().ceil())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded, and not negative")]
fn at_most(number: f64, most: u8) -> usize {
    number.clamp(1.0, f64::from(most)) as usize
}

#[expect(clippy::cast_precision_loss, reason = "the difference cannot be seen in a picture")]
fn number(count: usize) -> f64 {
    count as f64
}
