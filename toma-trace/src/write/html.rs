//! One page that needs no other file, no script and no network.

use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use super::text::headline;
use crate::holdings::{Catalog, Holdings, Inventory};
use crate::lines::Lines;
use crate::live::Live;
use crate::place::Place;
use crate::sizes::Size;
use crate::tables::Trace;
use crate::tick::Tick;

/// Writes for each device its live bytes over time, the composition of its peak, and the tables.
///
/// A timeline has 1,000 moments at most, for any number of events. Each shows the most bytes since the one before.
///
/// ```
/// # let (host, thread) = (toma_trace::Place::HOST, toma_trace::ThreadId(0));
/// # let mut recorder = toma_trace::Recorder::new();
/// # let weights = recorder.existing(&host, 4000)?;
/// # let operator = recorder.begin_operator(thread, "aten::relu");
/// # let result = recorder.birth(thread, &host, 1000)?;
/// # recorder.uses(operator, toma_trace::Operand::new(weights, toma_trace::Access::Reads, &[10, 100]))?;
/// # recorder.uses(operator, toma_trace::Operand::new(result, toma_trace::Access::Makes, &[10, 25]))?;
/// # recorder.end_operator(operator)?;
/// # let trace = recorder.finish();
/// use toma_trace::holdings::{Catalog, Names};
/// use toma_trace::lines::Lines;
/// use toma_trace::write;
///
/// let (catalog, lines) = (Catalog::of(&trace, &Names::new()), Lines::of(&trace));
/// let mut page = Vec::new(); // or a file
/// write::html(&trace, &catalog, &lines, "one step", &mut page)?;
/// assert!(page.starts_with(b"<!DOCTYPE html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Errors of the writer.
pub fn html(
    trace: &Trace,
    catalog: &Catalog,
    lines: &Lines,
    title: &str,
    mut to: impl Write,
) -> io::Result<()> {
    let title = escaped(title);
    writeln!(
        to,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>"
    )?;
    for place in trace.places() {
        device(trace, catalog, place, &mut to)?;
    }
    let inventory = escaped(format_args!("{:#}", Inventory::at(trace, catalog, trace.end())));
    let lines = escaped(lines);
    writeln!(to, "<h2>Lines</h2>\n<pre>{lines}</pre>\n<h2>Alive at the end</h2>\n<pre>{inventory}</pre>")?;
    writeln!(to, "</body>\n</html>")
}

const STYLE: &str = "\
body { font-family: sans-serif; margin: 2em; max-width: 80em }
pre { overflow-x: auto; background: #f6f6f6; padding: 0.6em }
svg { display: block; width: 100% }
polygon { fill: #8fb8de; stroke: #2b6ca3; vector-effect: non-scaling-stroke }
";

/// Writes the live bytes of one device over time, and the composition of its peak.
fn device(trace: &Trace, catalog: &Catalog, place: &Place, to: &mut impl Write) -> io::Result<()> {
    let live = trace.live(place);
    let (peak, events, points) =
        (Size::of(live.peak().bytes), trace.end().count(), points(&live, trace.end()));
    let headline = escaped(headline(trace, catalog, place));
    writeln!(to, "<h2>{headline}</h2>\n<h3>Live bytes</h3>")?;
    let view = format_args!("0 0 {WIDTH} {HEIGHT}");
    writeln!(
        to,
        "<svg class=\"timeline\" viewBox=\"{view}\" height=\"{HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\">\n\
         <title>0 to {peak} over {events} events</title>\n<polygon points=\"{points}\"/>\n</svg>"
    )?;
    let holdings = escaped(Holdings::at_peak(trace, catalog, place));
    writeln!(to, "<h3>What the peak is made of</h3>\n<pre>{holdings}</pre>")
}

/// Replaces the characters that have a meaning in HTML by numbers.
pub(crate) fn escaped(text: impl Display) -> String {
    let mut escaped = String::new();
    for character in text.to_string().chars() {
        if "&<>\"'".contains(character) {
            let _ = write!(escaped, "&#{};", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

const WIDTH: u64 = 1000;
const HEIGHT: u64 = 200;

/// Returns the area under the live bytes, as corners of a polygon.
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

/// Returns `part * to / whole`, without an overflow.
fn scaled(part: u64, to: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(part) * u128::from(to) / u128::from(whole)).unwrap_or(to)
}
