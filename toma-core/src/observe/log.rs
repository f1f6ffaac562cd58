//! `TOMA_LOG=1`: prints every failure and the answer to it on standard error.

use std::time::Duration;

use super::{Answer, Event, EventKind, Observer, Shortfall};
use crate::text::{bytes, count, print};

pub(super) struct Stderr;

impl Observer for Stderr {
    fn observe(&self, event: &Event<'_>) {
        if let Some(line) = line(&event.kind) {
            print(&format!("toma: {}: {line}", event.name));
        }
    }
}

/// Returns the text for an event, with the allocations that filled the memory below it; `None` for a success and others
/// that are not worth a line.
fn line(kind: &EventKind<'_>) -> Option<String> {
    Some(match *kind {
        EventKind::Failed {
            start, end, size, class, requested_bytes, free_bytes, message, filled, ..
        } => {
            let items = match end - start {
                items if items == size => String::new(),
                items => format!(" ({})", count(items, "item")),
            };
            let requested = requested_bytes.map_or(String::new(), |n| format!(", {} requested", bytes(n)));
            let free = free_bytes.map_or(String::new(), |n| format!(", {} free", bytes(n)));
            let filled = filled.unwrap_or_default().lines().flat_map(|line| ["\n  ", line]);
            let filled: String = filled.collect();
            format!("{class} at size {size}{items}{requested}{free}: {message}{filled}")
        }
        EventKind::Answered { size, answer } => answered(size, answer),
        // A wait that takes no time is not worth a line.
        EventKind::Waits { others: 0, .. } => return None,
        EventKind::Waited { elapsed, .. } if elapsed < Duration::from_millis(1) => return None,
        EventKind::Waits { others, .. } => format!("waits for its turn, {others} running on the device"),
        EventKind::Waited { elapsed, exclusive: true } => format!("waited {elapsed:.1?} for the device"),
        EventKind::Waited { elapsed, exclusive: false } => {
            format!("waited {elapsed:.1?}, and shares the device with others")
        }
        EventKind::Probe { from, to } => format!("tries {to} after {from}"),
        EventKind::DoesNotFit { size, needs_bytes, free_bytes } => {
            Shortfall { size, needs_bytes, free_bytes, per_item_bytes: None }.to_string()
        }
        EventKind::Settled { size, callers } if callers.is_empty() => format!("settles at {size}"),
        EventKind::Settled { size, callers } => format!("settles at {size} for calls in {callers}"),
        _ => return None,
    })
}

fn answered(size: usize, answer: Answer) -> String {
    match answer {
        Answer::Shrink(to) => format!("shrinks from {size} to {to}"),
        Answer::Follow { to, elsewhere } => format!("{size} -> {to} ({elsewhere})"),
        Answer::GiveUp(reason) => format!("gives up at {size}: {reason}"),
        Answer::LeaveOut { .. } => answer.to_string(),
        _ => format!("at {size}: {answer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, EventKind, line};
    use crate::cache::Callers;
    use crate::classify::Class;
    use crate::device::Rung;
    use crate::observe::{Answer, Reason};

    #[test]
    fn events_worth_a_line_have_one() {
        let anchor = 0_u8;
        let (none, callers) = (Callers::default(), Callers::of(std::ptr::from_ref(&anchor).addr()));
        assert!(!callers.is_empty());
        let with_callers = format!("settles at 8 for calls in {callers}");
        let waited = |ms, exclusive| EventKind::Waited { elapsed: Duration::from_millis(ms), exclusive };
        let failed_with = |size, filled| EventKind::Failed {
            start: 4,
            end: 7,
            size,
            class: Class::OutOfMemory,
            requested_bytes: Some(2048),
            free_bytes: None,
            message: "no room",
            filled,
            elapsed: None,
        };
        let failed = |size| failed_with(size, None);
        let answered = |answer| EventKind::Answered { size: 8, answer };
        for (kind, expected) in [
            (EventKind::Waits { size: 8, others: 0 }, ""),
            (EventKind::Waits { size: 8, others: 2 }, "waits for its turn, 2 running on the device"),
            (waited(0, true), ""),
            (waited(1500, true), "waited 1.5s for the device"),
            (waited(20, false), "waited 20.0ms, and shares the device with others"),
            (EventKind::Settled { size: 8, callers: &none }, "settles at 8"),
            (EventKind::Settled { size: 8, callers: &callers }, &with_callers),
            (failed(3), "out of memory at size 3, 2.0 KiB requested: no room"),
            (failed(90), "out of memory at size 90 (3 items), 2.0 KiB requested: no room"),
            (
                failed_with(3, Some("conv at net.rs:7\n  held by x")),
                "out of memory at size 3, 2.0 KiB requested: no room\n  conv at net.rs:7\n    held by x",
            ),
            (answered(Answer::Shrink(4)), "shrinks from 8 to 4"),
            (answered(Answer::Again(Rung::Exclusive)), "at 8: tries it once more, with the device to itself"),
            (answered(Answer::LeaveOut { index: 7, cost: 8 }), "leaves out item 7, which costs 8"),
            (
                answered(Answer::GiveUp(Reason::LeftOut)),
                "gives up at 8: a single item does not fit by itself",
            ),
        ] {
            assert_eq!(line(&kind).unwrap_or_default(), expected, "{kind:?}");
        }
    }
}
