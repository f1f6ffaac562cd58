//! Calls user callbacks where storages move and operators run.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::callbacks::{Event, OperatorCall};
use super::state::ManagerState;
use crate::error::{Error, ErrorKind};

thread_local! {
    /// Set while a user callback runs, so that operators inside the callback do not call it again.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a user callback unless one runs on this thread already, and catches its panic.
fn contained<T>(foreign: impl FnOnce() -> T) -> Option<std::thread::Result<T>> {
    if IN_CALLBACK.replace(true) {
        return None;
    }
    let result = catch_unwind(AssertUnwindSafe(foreign));
    IN_CALLBACK.set(false);
    Some(result)
}

impl ManagerState {
    pub(crate) fn notify(&self, event: impl FnOnce() -> Event) {
        if let Some(observer) = self.callbacks.get().and_then(|callbacks| callbacks.observer.as_ref()) {
            let _panicked = contained(|| observer(&event()));
        }
    }

    pub(crate) fn before(&self, call: &OperatorCall<'_>) -> Result<(), Error> {
        let Some(around) = self.callbacks.get().and_then(|callbacks| callbacks.around.as_ref()) else {
            return Ok(());
        };
        contained(|| around.before(call)).unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| {
            let message = format!("offload: the callback panicked before {}", call.name);
            Err(Error::new(ErrorKind::Other, message))
        })
    }

    pub(crate) fn after(&self, call: &OperatorCall<'_>) {
        if let Some(around) = self.callbacks.get().and_then(|callbacks| callbacks.around.as_ref()) {
            let _panicked = contained(|| around.after(call));
        }
    }
}
