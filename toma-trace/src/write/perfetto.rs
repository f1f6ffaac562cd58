//! The format of Chrome's trace viewer, which Perfetto reads.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::tables::{Interval, ThreadId, Trace};

/// One entry. `dur` is only for intervals, `args` only for entries with values.
#[derive(Serialize)]
struct PerfettoEntry<'a> {
    name: &'a str,
    cat: &'a str,
    ph: &'a str,
    pid: u64,
    tid: u64,
    ts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u64>,
    #[serde(skip_serializing_if = "Value::is_null")]
    args: Value,
}

/// Writes scopes and operators as intervals of their threads, and the live bytes of each device as a counter.
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
/// use toma_trace::write;
///
/// let mut json = Vec::new(); // or a file
/// write::perfetto(&trace, &mut json)?;
/// assert!(json.ends_with(b"}"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Errors of the writer.
pub fn perfetto(trace: &Trace, to: impl Write) -> io::Result<()> {
    let mut list = List { to, is_empty: true };
    list.to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for thread in threads(trace) {
        let args = json!({ "name": thread.to_string() });
        list.push(&PerfettoEntry { tid: thread.0, args, ..entry("thread_name", "", "M") })?;
    }
    for (_, scope) in trace.scopes() {
        let args = json!({ "file": scope.label.file, "line": scope.label.line });
        list.push(&PerfettoEntry { args, ..interval(&scope.label.name, "scope", scope.interval) })?;
    }
    for (_, operator) in trace.operators() {
        list.push(&interval(&operator.name, "operator", operator.interval))?;
    }
    for place in trace.places() {
        let name = place.to_string();
        for (tick, bytes) in trace.live(place).steps() {
            // One value for each entry, because some viewers refuse a file with several.
            list.push(&PerfettoEntry {
                ts: tick.count(),
                args: json!({ "bytes": bytes }),
                ..entry(&name, "memory", "C")
            })?;
        }
    }
    list.to.write_all(b"]}")
}

fn entry<'a>(name: &'a str, cat: &'a str, ph: &'a str) -> PerfettoEntry<'a> {
    PerfettoEntry { name, cat, ph, pid: 1, tid: 0, ts: 0, dur: None, args: Value::Null }
}

/// Returns the entry of an interval. No two events share a tick, so intervals of a thread are strictly nested.
fn interval<'a>(name: &'a str, cat: &'a str, interval: Interval) -> PerfettoEntry<'a> {
    let ts = interval.begin.count();
    let dur = Some(interval.end.count() - ts);
    PerfettoEntry { tid: interval.thread.0, ts, dur, ..entry(name, cat, "X") }
}

fn threads(trace: &Trace) -> BTreeSet<ThreadId> {
    let scopes = trace.scopes().map(|(_, scope)| scope.interval.thread);
    scopes.chain(trace.operators().map(|(_, operator)| operator.interval.thread)).collect()
}

struct List<W> {
    to: W,
    is_empty: bool,
}

impl<W: Write> List<W> {
    fn push(&mut self, entry: &PerfettoEntry<'_>) -> io::Result<()> {
        let comma: &[u8] = if self.is_empty { b"\n" } else { b",\n" };
        self.is_empty = false;
        self.to.write_all(comma)?;
        Ok(serde_json::to_writer(&mut self.to, entry)?)
    }
}
