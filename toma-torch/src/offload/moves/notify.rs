//! Calls user callbacks where storages move and operators run.

use std::cell::{Cell, RefCell};

use toma_core::private::contained;

use super::callbacks::{Event, Observer, OperatorCall};
use super::state::ManagerState;
use crate::error::{Error, ErrorKind};

thread_local! {
    /// Set while a user callback runs, so that operators inside the callback do not call it again.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    /// Number of the guards [`Moving`] of this thread.
    static MOVING: Cell<usize> = const { Cell::new(0) };
    /// Events for the end of the moves that this thread makes.
    static POSTPONED: RefCell<Vec<(Observer, Event)>> = const { RefCell::new(Vec::new()) };
}

/// Runs a user callback. Returns `None` if one runs on this thread already, and `Some(None)` if it panicked.
fn called<T>(foreign: impl FnOnce() -> T) -> Option<Option<T>> {
    if IN_CALLBACK.replace(true) {
        return None;
    }
    let result = contained(foreign);
    IN_CALLBACK.set(false);
    Some(result)
}

/// Guard of a thread that moves storages. Observers are called when the outermost is dropped: until then a storage
/// may be marked as moving, and an observer that fetches it would wait for its own thread.
#[must_use = "observers are called when it is dropped"]
pub(crate) struct Moving(());

impl Moving {
    pub(crate) fn begin() -> Self {
        MOVING.set(MOVING.get() + 1);
        Self(())
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        MOVING.set(MOVING.get() - 1);
        if MOVING.get() == 0 {
            let events = POSTPONED.try_with(RefCell::take).unwrap_or_default();
            for (observer, event) in events {
                called(|| observer(&event));
            }
        }
    }
}

impl ManagerState {
    /// Tells the observer of an event once the moves of this thread have ended.
    pub(crate) fn notify(&self, event: impl FnOnce() -> Event) {
        if let Some(observer) = self.callbacks.get().and_then(|callbacks| callbacks.observer.as_ref()) {
            let postponed = (Observer::clone(observer), event());
            let _thread_ends = POSTPONED.try_with(|events| events.borrow_mut().push(postponed));
        }
    }

    pub(crate) fn before(&self, call: &OperatorCall<'_>) -> Result<(), Error> {
        let Some(around) = self.callbacks.get().and_then(|callbacks| callbacks.around.as_ref()) else {
            return Ok(());
        };
        called(|| around.before(call)).unwrap_or(Some(Ok(()))).unwrap_or_else(|| {
            let message = format!("offload: the callback panicked before {}", call.name);
            Err(Error::new(ErrorKind::Other, message))
        })
    }

    pub(crate) fn after(&self, call: &OperatorCall<'_>) {
        if let Some(around) = self.callbacks.get().and_then(|callbacks| callbacks.around.as_ref()) {
            called(|| around.after(call));
        }
    }
}
