//! Allows one call at a time over a group of ranks.

use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Error;

/// The call that runs over ranks on one of them, if any.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::{Calls, Error};
///
/// let calls = Calls::default();
/// let running = calls.begin("train")?;
/// assert!(matches!(calls.begin("evaluate"), Err(Error::Busy { .. })));
/// drop(running);
/// assert!(calls.begin("evaluate").is_ok());
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Calls(Mutex<CallState>);

#[derive(Debug, Default)]
enum CallState {
    #[default]
    Idle,
    Runs(String),
    /// A call was dropped between its vote and the answer, so the answer is lost.
    Lost(String),
}

impl Calls {
    /// Begins a call, unless another one runs.
    ///
    /// # Errors
    /// [`Error::Busy`] while another call runs, and [`Error::Store`] once a call was dropped while it waited for votes.
    pub fn begin(&self, call: impl fmt::Display) -> Result<Running<'_>, Error> {
        let call = call.to_string();
        let mut state = self.lock();
        match &*state {
            CallState::Idle => {
                *state = CallState::Runs(call);
                Ok(Running(self))
            }
            CallState::Runs(running) => Err(Error::Busy { running: running.clone(), call }),
            CallState::Lost(lost) => {
                Err(Error::Store(format!("{lost} was dropped while it waited for the votes of other ranks")))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running call, until it is dropped.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::ranks::{self, Calls, Running};
///
/// /// Runs work over ranks, one call at a time.
/// fn exclusive(calls: &Calls, work: impl FnOnce()) -> Result<(), ranks::Error> {
///     let _running: Running<'_> = calls.begin("my collective")?;
///     work();
///     Ok(())
/// }
/// assert!(exclusive(&Calls::default(), || ()).is_ok());
/// ```
#[derive(Debug)]
#[must_use = "the call ends when it is dropped"]
pub struct Running<'a>(&'a Calls);

impl Running<'_> {
    /// Marks that the call ends without the answer to its last vote, so that no other call can follow it.
    pub(crate) fn is_lost(&self) {
        let mut state = self.0.lock();
        if let CallState::Runs(call) = &mut *state {
            *state = CallState::Lost(mem::take(call));
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if matches!(*state, CallState::Runs(_)) {
            *state = CallState::Idle;
        }
    }
}
