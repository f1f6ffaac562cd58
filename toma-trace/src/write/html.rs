//! One page that needs no other file, no script and no network.

use std::io::{self, Write};

use askama::Template;

use super::text::headline;
use crate::holdings::{Catalog, Holdings, Inventory};
use crate::lines::Lines;
use crate::live::Live;
use crate::place::Place;
use crate::sizes::Size;
use crate::tables::{Tick, Trace};

/// Writes for each device its living bytes over time, what its peak is made of, and the tables.
///
/// However many events there are, a timeline has 1,000 moments at most. Each shows the most bytes there were since the
/// one before.
///
/// # Errors
///
/// Those of the writer.
pub fn html(
    trace: &Trace,
    catalog: &Catalog,
    lines: &Lines,
    title: &str,
    mut to: impl Write,
) -> io::Result<()> {
    let devices: Vec<_> = trace.places().into_iter().map(|place| Device::of(trace, catalog, place)).collect();
    let inventory = Inventory::at(trace, catalog, trace.end());
    let page = Page { title, devices: &devices, lines, inventory: format!("{inventory:#}") };
    page.write_into(&mut to)
}

#[derive(Template)]
#[template(path = "trace.html")]
struct Page<'a> {
    title: &'a str,
    devices: &'a [Device],
    lines: &'a Lines,
    inventory: String,
}

/// What the page says of one device.
struct Device {
    headline: String,
    peak: Size,
    ticks: u64,
    /// Corners of the timeline's area.
    points: String,
    holdings: Holdings,
}

impl Device {
    fn of(trace: &Trace, catalog: &Catalog, place: &Place) -> Self {
        let live = trace.live(place);
        Self {
            headline: headline(trace, catalog, place),
            peak: Size::of(live.peak().bytes),
            ticks: trace.end().count(),
            points: points(&live, trace.end()),
            holdings: Holdings::at_peak(trace, catalog, place),
        }
    }
}

const WIDTH: u64 = 1000;
const HEIGHT: u64 = 200;

/// The area under the living bytes, as corners of a polygon.
fn points(live: &Live, end: Tick) -> String {
    let (end, peak) = (end.count().max(1), live.peak().bytes.max(1));
    let x = |tick: Tick| scaled(tick.count(), WIDTH, end);
    let y = |bytes| HEIGHT - scaled(bytes, HEIGHT, peak);
    let mut points = vec![(0, HEIGHT)];
    let mut steps = live.steps().iter().peekable();
    let mut last = 0;
    while let Some((tick, bytes)) = steps.next() {
        let column = x(*tick);
        let (mut highest, mut latest) = (*bytes, *bytes);
        while let Some((_, bytes)) = steps.next_if(|(tick, _)| x(*tick) == column) {
            highest = highest.max(*bytes);
            latest = *bytes;
        }
        for bytes in [last, highest, latest] {
            points.push((column, y(bytes)));
        }
        last = latest;
    }
    points.extend([(WIDTH, y(last)), (WIDTH, HEIGHT)]);
    points.into_iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ")
}

/// `part * to / whole`, without an overflow.
fn scaled(part: u64, to: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(to) / u128::from(whole)).unwrap_or(to)
}
