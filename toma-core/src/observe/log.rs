//! `TOMA_LOG=1`: every failure and what is done about it, on standard error.

use super::{Event, EventKind, Observer, bytes};
use crate::classify::Class;

pub(super) struct Stderr;

impl Observer for Stderr {
    fn observe(&self, event: &Event<'_>) {
        if let Some(line) = line(&event.kind) {
            eprintln!("toma: {}: {line}", event.name);
        }
    }
}

/// What is worth a line; attempts that succeed are not.
fn line(kind: &EventKind<'_>) -> Option<String> {
    Some(match *kind {
        EventKind::Started { start, remembered: Some(size), .. } => {
            format!("starts at {start}, remembered {size}")
        }
        EventKind::Failed { start, end, class, requested_bytes, free_bytes, message, .. } => {
            let requested = requested_bytes.map_or(String::new(), |n| format!(", {} requested", bytes(n)));
            let free = free_bytes.map_or(String::new(), |n| format!(", {} free", bytes(n)));
            format!("{} at size {}{requested}{free}: {message}", name_of(class), end - start)
        }
        EventKind::Shrink { from, to } => format!("shrinks from {from} to {to}"),
        EventKind::Again { size } => format!("tries {size} once more"),
        EventKind::Probe { from, to } => format!("probes {to} after {from}"),
        EventKind::GaveUp { size, reason } => format!("gives up at {size}: {reason}"),
        EventKind::Settled { size } => format!("settles at {size}"),
        _ => return None,
    })
}

fn name_of(class: Class) -> &'static str {
    match class {
        Class::OutOfMemory => "out of memory",
        Class::Transient => "transient failure",
        Class::Poisoned => "device context poisoned",
        Class::Other => "failure",
    }
}
