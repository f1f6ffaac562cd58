//! The curve of the calls of one name.

use std::iter;

use super::plane::{Plane, tried};
use crate::classify::Class;
use crate::observe::report::Report;

/// Calls of one name, one after another, in the coordinates of the picture's plane.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Curve {
    pub(super) label: String,
    /// The corners of the steps.
    pub(super) points: Vec<(f64, f64)>,
    /// The attempts that ran out of memory.
    pub(super) failures: Vec<(f64, f64)>,
    pub(super) out_of_memory: usize,
    /// The ends of the calls that settled a size, at that size.
    pub(super) settled: Vec<(f64, f64)>,
    /// The text of the legend for `settled`.
    pub(super) remembers: String,
}

impl Curve {
    pub(super) fn of(reports: &[&Report], label: String, plane: &Plane) -> Self {
        let out_of_memory = reports.iter().map(|report| report.out_of_memory).sum();
        let remembers = match *reports {
            [Report { settled: Some(size), is_remembered: true, .. }] => format!("remembers {size}"),
            _ => "size remembered".to_owned(),
        };
        let mut curve = Self { label, out_of_memory, remembers, ..Self::default() };
        for report in reports {
            curve.add(report, plane);
        }
        curve
    }

    fn add(&mut self, report: &Report, plane: &Plane) {
        let from = self.points.last().map_or(0.0, |&(x, _)| x);
        let (mut attempts, mut x) = (0, from);
        for tried in &*tried(report) {
            attempts += tried.attempts();
            let y = plane.y(tried.size);
            self.points.push((x, y));
            x = from + plane.x(attempts, tried.time);
            self.points.push((x, y));
            if tried.failed == Some(Class::OutOfMemory) {
                self.failures.push((x, y));
            }
        }
        let remembered = report.settled.filter(|_| report.is_remembered);
        self.settled.extend(remembered.map(|size| (x, plane.y(size))));
    }
}

/// Returns the name, or its end, which is more specific than its start, without the characters that XML does not allow.
pub(super) fn name(report: &Report, longest: usize) -> String {
    let name: Vec<char> = report.name.to_string().chars().collect();
    let cut = name.len().saturating_sub(longest);
    let shown = name[cut..].iter().map(|&c| if is_allowed(c) { c } else { char::REPLACEMENT_CHARACTER });
    if cut == 0 { shown.collect() } else { iter::once('…').chain(shown.skip(1)).collect() }
}

fn is_allowed(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}')
}
