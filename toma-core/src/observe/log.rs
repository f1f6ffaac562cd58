//! `TOMA_LOG=1`: every failure and what is done about it, on standard error.

use std::time::Duration;

use super::{Event, EventKind, Observer, Shortfall};
use crate::ladder::Rung;
use crate::text::{bytes, count, print};

pub(super) struct Stderr;

impl Observer for Stderr {
    fn observe(&self, event: &Event<'_>) {
        if let Some(line) = line(&event.kind) {
            print(&format!("toma: {}: {line}", event.name));
        }
    }
}

/// What is worth a line; attempts that succeed are not.
fn line(kind: &EventKind<'_>) -> Option<String> {
    Some(match *kind {
        EventKind::Failed { start, end, size, class, requested_bytes, free_bytes, message, .. } => {
            let items = match end - start {
                items if items == size => String::new(),
                items => format!(" ({})", count(items, "item")),
            };
            let requested = requested_bytes.map_or(String::new(), |n| format!(", {} requested", bytes(n)));
            let free = free_bytes.map_or(String::new(), |n| format!(", {} free", bytes(n)));
            format!("{class} at size {size}{items}{requested}{free}: {message}")
        }
        EventKind::Shrink { from, to } => format!("shrinks from {from} to {to}"),
        EventKind::Cut { size, items } => {
            format!("takes {} at most, because {size} cannot be any smaller", count(items, "item"))
        }
        EventKind::Again { size, rung } => again(size, rung),
        // What takes no time is not worth a line.
        EventKind::Waits { others: 0, .. } => return None,
        EventKind::Waited { elapsed, .. } if elapsed < Duration::from_millis(1) => return None,
        EventKind::Waits { others, .. } => format!("waits for its turn, {others} running on the device"),
        EventKind::Waited { elapsed, alone } => {
            format!("waited {elapsed:.1?}, and {}", if alone { "is alone" } else { "is among others" })
        }
        EventKind::FallsBack { size } => format!("falls back to another memory, from size {size}"),
        EventKind::FallsBackAlone { index, cost } => {
            format!("falls back to another memory for item {index}, which costs {cost}")
        }
        EventKind::Probe { from, to } => format!("tries {to} after {from}"),
        EventKind::DoesNotFit { size, needs_bytes, free_bytes } => {
            Shortfall { size, needs_bytes, free_bytes }.to_string()
        }
        EventKind::GaveUp { size, reason } => format!("gives up at {size}: {reason}"),
        EventKind::SetAside { index, cost } => format!("leaves out item {index}, which costs {cost}"),
        EventKind::Settled { size, callers } if callers.is_empty() => format!("settles at {size}"),
        EventKind::Settled { size, callers } => format!("settles at {size} for calls in {callers}"),
        _ => return None,
    })
}

fn again(size: usize, rung: Rung) -> String {
    match rung {
        Rung::Transient => format!("tries {size} once more"),
        Rung::Release => format!("tries {size} once more, cached memory released"),
        Rung::Alone => format!("tries {size} once more, alone on the device, which others used"),
        Rung::Hooks => format!("tries {size} once more, if the release hooks give anything back"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, EventKind, Rung, line};
    use crate::classify::Class;
    use crate::observe::Reason;

    #[test]
    fn waits_that_take_time_have_a_line() {
        let waits = |others| line(&EventKind::Waits { size: 8, others });
        assert_eq!(waits(0), None);
        assert_eq!(waits(2).unwrap(), "waits for its turn, 2 running on the device");
        let waited = |ms, alone| line(&EventKind::Waited { elapsed: Duration::from_millis(ms), alone });
        assert_eq!(waited(0, true), None);
        assert_eq!(waited(1500, true).unwrap(), "waited 1.5s, and is alone");
        assert_eq!(waited(20, false).unwrap(), "waited 20.0ms, and is among others");
    }

    #[test]
    fn each_rung_has_a_line_of_its_own() {
        let again = |rung| line(&EventKind::Again { size: 8, rung }).unwrap();
        assert_eq!(again(Rung::Transient), "tries 8 once more");
        assert_eq!(again(Rung::Release), "tries 8 once more, cached memory released");
        assert_eq!(again(Rung::Alone), "tries 8 once more, alone on the device, which others used");
        assert_eq!(again(Rung::Hooks), "tries 8 once more, if the release hooks give anything back");
        let falls_back = line(&EventKind::FallsBack { size: 64 }).unwrap();
        assert_eq!(falls_back, "falls back to another memory, from size 64");
    }

    #[test]
    fn sizes_that_are_costs_are_told_with_their_items() {
        let failed = |size| EventKind::Failed {
            start: 4,
            end: 7,
            size,
            class: Class::OutOfMemory,
            requested_bytes: Some(2048),
            free_bytes: None,
            message: "no room",
            elapsed: None,
        };
        assert_eq!(line(&failed(3)).unwrap(), "out of memory at size 3, 2.0 KiB requested: no room");
        assert_eq!(
            line(&failed(90)).unwrap(),
            "out of memory at size 90 (3 items), 2.0 KiB requested: no room"
        );
    }

    #[test]
    fn items_that_fail_alone_are_named() {
        let lines = [
            EventKind::Cut { size: 1, items: 4 },
            EventKind::FallsBackAlone { index: 7, cost: 90 },
            EventKind::SetAside { index: 7, cost: 90 },
            EventKind::Probe { from: 16, to: 64 },
            EventKind::GaveUp { size: 90, reason: Reason::FailedAlone },
        ];
        assert_eq!(
            lines.map(|kind| line(&kind).unwrap()),
            [
                "takes 4 items at most, because 1 cannot be any smaller",
                "falls back to another memory for item 7, which costs 90",
                "leaves out item 7, which costs 90",
                "tries 64 after 16",
                "gives up at 90: an item failed alone, and nobody takes care of it",
            ]
        );
    }
}
