//! The observers of one call, and their notification.
//!
//! # Why
//!
//! An observer that panics receives no more events, and the work goes on: observing must not stop a night's work.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::notifying::{is_notifying, notifying};
use super::witness::Witnessed;
use super::{Event, EventKind, Name, Observer, global, log};
use crate::contained::contained;
use crate::switches::Switches;
use crate::text;

/// The observers of one call, and the witness; exists only if there is at least one of them.
pub(crate) struct Watch<'a> {
    call: u64,
    name: String,
    observers: Vec<Watcher<'a>>,
    pub(crate) witnessed: Option<Witnessed>,
}

type Watcher<'a> = Box<dyn Observer + Send + 'a>;

impl<'a> Watch<'a> {
    /// Returns `None`, without having built anything, if nothing watches the call.
    #[inline]
    pub(crate) fn new(name: &Name, local: Option<&'a dyn Observer>, switches: Switches) -> Option<Box<Self>> {
        let is_needed = Self::is_needed(local, switches) || switches.has(Switches::WITNESSED);
        is_needed.then(|| Box::new(Self::gather(name, local, switches)))
    }

    /// True if any observer watches the call.
    #[inline]
    pub(crate) fn is_needed(local: Option<&dyn Observer>, switches: Switches) -> bool {
        local.is_some()
            || (switches.has(Switches::LOG) || switches.has(Switches::OBSERVED) || tracing_listens())
                && !is_notifying()
    }

    #[cold]
    fn gather(name: &Name, local: Option<&'a dyn Observer>, switches: Switches) -> Self {
        static CALLS: AtomicU64 = AtomicU64::new(1);
        let mut observers: Vec<Watcher<'a>> = Vec::new();
        if let Some(local) = local {
            observers.push(Box::new(|event: &Event<'_>| local.observe(event)));
        }
        if !is_notifying() {
            observe_all(switches, &mut observers);
        }
        let (call, name) = (CALLS.fetch_add(1, Relaxed), name.to_string());
        let witnessed = switches.has(Switches::WITNESSED).then(|| Witnessed::new(call, &name)).flatten();
        Self { call, name, observers, witnessed }
    }

    /// Reports that an attempt has succeeded: to the witness first, because the observers' work is no part of the
    /// attempt.
    pub(crate) fn succeeded(&mut self, kind: EventKind<'_>) {
        if let Some(witnessed) = &mut self.witnessed {
            witnessed.succeeded();
        }
        self.notify(kind);
    }

    /// True if there are observers in addition to the witness.
    pub(crate) fn has_observers(&self) -> bool {
        !self.observers.is_empty()
    }

    /// Notifies all observers, and drops those that panic, because observing must not stop the work.
    pub(crate) fn notify(&mut self, kind: EventKind<'_>) {
        let Self { call, name, observers, .. } = self;
        let event = Event { call: *call, name, kind };
        notifying(|| {
            observers.retain(|observer| {
                if contained(|| observer.observe(&event)).is_some() {
                    return true;
                }
                text::print(&format!(
                    "toma: {name}: an observer panicked and receives no more events of this call"
                ));
                false
            });
        });
    }
}

/// Adds the observers of every call.
fn observe_all(switches: Switches, observers: &mut Vec<Watcher<'_>>) {
    if switches.has(Switches::LOG) {
        observers.push(Box::new(log::Stderr));
    }
    #[cfg(feature = "tracing")]
    if tracing_listens() {
        observers.push(Box::new(super::tracing::Tracing));
    }
    for observer in global::observers() {
        observers.push(Box::new(move |event: &Event<'_>| observer.observe(event)));
    }
}

#[cfg(feature = "tracing")]
fn tracing_listens() -> bool {
    super::tracing::listens()
}

#[cfg(not(feature = "tracing"))]
fn tracing_listens() -> bool {
    false
}
