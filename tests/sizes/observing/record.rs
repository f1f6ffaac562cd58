//! An observer that records all of its events.

use std::sync::Mutex;
use std::time::Duration;

use toma::observe::{Event, EventKind, Observer};

/// All events, in order.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Vec<Received>>);

/// One event with all of its fields.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) call: u64,
    pub(crate) name: String,
    /// The kind of the event and all of its fields except the duration.
    pub(crate) line: String,
    pub(crate) elapsed: Option<Duration>,
}

impl Record {
    pub(crate) fn received(&self) -> Vec<Received> {
        self.0.lock().unwrap().clone()
    }

    /// Returns the lines since the last call, joined. The end of an attempt stands behind its beginning.
    pub(crate) fn take(&self) -> String {
        let mut text = String::new();
        for Received { line, .. } in std::mem::take(&mut *self.0.lock().unwrap()) {
            if line.starts_with("succeeded") || line.starts_with("failed") {
                text.truncate(text.trim_end().len());
                text += ": ";
            }
            text = text + &line + "\n";
        }
        text
    }
}

impl Observer for Record {
    fn observe(&self, event: &Event<'_>) {
        let (line, elapsed) = line(&event.kind);
        let received = Received { call: event.call, name: event.name.to_owned(), line, elapsed };
        self.0.lock().unwrap().push(received);
    }
}

/// Formats an event. Every field is named, so that a new field fails to compile until it is tested.
fn line(kind: &EventKind<'_>) -> (String, Option<Duration>) {
    let line = match *kind {
        EventKind::Started { initial, start, length, remembered } => {
            format!("started: initial {initial}, start {start}, length {length:?}, remembered {remembered:?}")
        }
        EventKind::Attempt { start, end } => format!("attempt {start}..{end}"),
        EventKind::Succeeded { start, end, elapsed } => {
            return (format!("succeeded {start}..{end}"), Some(elapsed));
        }
        EventKind::Failed {
            start,
            end,
            size,
            class,
            requested_bytes,
            free_bytes,
            message,
            filled,
            elapsed,
        } => {
            assert_eq!(size, end - start, "each item counts one");
            let bytes = format!("requested {requested_bytes:?}, free {free_bytes:?}");
            let filled = filled.map_or(String::new(), |filled| format!(", filled by {filled}"));
            return (format!("failed {start}..{end}: {class:?}, {bytes}: {message}{filled}"), elapsed);
        }
        EventKind::Answered { size, answer } => format!("at {size}: {answer}"),
        EventKind::Waits { size, others } => format!("waits with {size}, {others} others"),
        EventKind::Waited { elapsed, exclusive } => {
            return (format!("waited, exclusive: {exclusive}"), Some(elapsed));
        }
        EventKind::Probe { from, to } => format!("probe {from} to {to}"),
        EventKind::DoesNotFit { size, needs_bytes, free_bytes } => {
            format!("does not fit at {size}: needs {needs_bytes}, free {free_bytes}")
        }
        EventKind::Settled { size, .. } => format!("settled {size}"),
        EventKind::Finished { attempts, out_of_memory } => {
            format!("finished: {attempts} attempts, {out_of_memory} out of memory")
        }
        _ => format!("an event the tests do not know: {kind:?}"),
    };
    (line, None)
}
