//! Tables for people, one after the other.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::holdings::{Catalog, Holdings, Inventory};
use crate::lines::Lines;
use crate::place::Place;
use crate::sizes::Size;
use crate::tables::Trace;
use crate::tick::Tick;

/// Writes position and composition of each device's peak, a table of its lines, and the storages alive at the end.
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
/// let mut text = Vec::new();
/// write::text(&trace, &catalog, &lines, &mut text)?;
/// assert!(String::from_utf8(text)?.starts_with("peak of 4.88K on host"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Errors of the writer.
pub fn text(trace: &Trace, catalog: &Catalog, lines: &Lines, mut to: impl Write) -> io::Result<()> {
    for place in trace.places() {
        writeln!(to, "{}\n{}", headline(trace, catalog, place), Holdings::at_peak(trace, catalog, place))?;
    }
    write!(to, "{lines}\n{:#}", Inventory::at(trace, catalog, trace.end()))
}

/// Describes the position of the peak of a device.
pub(super) fn headline(trace: &Trace, catalog: &Catalog, place: &Place) -> String {
    let peak = trace.live(place).peak();
    let mut text = format!("peak of {} on {place}", Size::of(peak.bytes));
    let born = |tick: Tick| {
        let is_it = |birth: Option<Tick>| birth == Some(tick);
        trace.blocks().find(|(_, block)| is_it(block.birth.map(|birth| birth.tick)))
    };
    let _ = match born(peak.tick) {
        Some((storage, _)) => write!(text, ", reached by {}", catalog.name(storage)),
        None => write!(text, ", before the first event"),
    };
    text
}
