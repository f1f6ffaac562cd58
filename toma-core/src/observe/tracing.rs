//! Every event as a `tracing` event, target `toma`.

use ::tracing::level_filters::LevelFilter;
use ::tracing::{Level, debug, info, warn};

use super::{Event, EventKind, Observer};

pub(super) struct Tracing;

/// True if a subscriber receives events of level WARN or a more verbose one: one relaxed load.
#[inline]
pub(super) fn listens() -> bool {
    LevelFilter::current() >= Level::WARN
}

impl Observer for Tracing {
    fn observe(&self, event: &Event<'_>) {
        let &Event { call, name, kind } = event;
        match kind {
            EventKind::Started { initial, start, length, remembered } => {
                debug!(target: "toma", call, name, initial, start, length, remembered, "started");
            }
            EventKind::Attempt { start, end } => debug!(target: "toma", call, name, start, end, "attempt"),
            EventKind::Succeeded { start, end, elapsed } => {
                debug!(target: "toma", call, name, start, end, ?elapsed, "succeeded");
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
                warn!(
                    target: "toma", call, name, start, end, size, ?class, requested_bytes, free_bytes, ?elapsed,
                    error = message, filled, "failed"
                );
            }
            EventKind::Answered { size, answer } => {
                info!(target: "toma", call, name, size, %answer, "answered");
            }
            EventKind::Waits { size, others } => info!(target: "toma", call, name, size, others, "waits"),
            EventKind::Waited { elapsed, exclusive } => {
                info!(target: "toma", call, name, ?elapsed, exclusive, "waited");
            }
            EventKind::Probe { from, to } => info!(target: "toma", call, name, from, to, "probe"),
            EventKind::DoesNotFit { size, needs_bytes, free_bytes } => {
                warn!(target: "toma", call, name, size, needs_bytes, free_bytes, "does not fit");
            }
            EventKind::Settled { size, .. } => info!(target: "toma", call, name, size, "settled"),
            EventKind::Finished { attempts, out_of_memory } => {
                debug!(target: "toma", call, name, attempts, out_of_memory, "finished");
            }
        }
    }
}
