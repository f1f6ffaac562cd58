//! Calls user callbacks where storages move and operators run.

use super::callbacks::{Event, OperatorCall, called, postpone};
use super::state::ManagerState;
use crate::error::{Error, ErrorKind};

impl ManagerState {
    /// Reports an event to the observer once the moves of this thread have ended.
    pub(crate) fn notify(&self, event: impl FnOnce() -> Event) {
        if let Some(observer) = self.callbacks.get().and_then(|callbacks| callbacks.observer.as_ref()) {
            postpone(observer, event());
        }
    }

    pub(crate) fn before(&self, call: &OperatorCall<'_>) -> Result<(), Error> {
        let Some(around) = self.callbacks.get().and_then(|callbacks| callbacks.around.as_ref()) else {
            return Ok(());
        };
        called(Ok(()), || around.before(call)).unwrap_or_else(|| {
            let message = format!("offload: the callback panicked before {}", call.name);
            Err(Error::new(ErrorKind::Other, message))
        })
    }

    pub(crate) fn after(&self, call: &OperatorCall<'_>) {
        if let Some(around) = self.callbacks.get().and_then(|callbacks| callbacks.around.as_ref()) {
            called((), || around.after(call));
        }
    }
}
