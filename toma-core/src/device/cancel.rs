//! Ending waits from outside.

use std::sync::atomic::Ordering;

use super::sleepers::{self, Flag};

/// Ends waits and retries of the calls that were given it, from any thread: a call that waits makes the
/// attempt it waited for, and what fails from then on goes through.
///
/// Without it, the wait of a call ends when its bound or deadline has passed, and not before. Clones are
/// the same handle. An attempt that runs goes on: a body that should end in the middle asks
/// [`is_cancelled`](Self::is_cancelled) itself.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::device::Cancel;
///
/// let cancel = Cancel::new();
/// let theirs = cancel.clone();
/// std::thread::spawn(move || theirs.cancel()).join().unwrap();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel(Flag);

impl Cancel {
    /// A handle that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, for good. It returns at once: the calls end when their threads and tasks get to it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
        sleepers::wake_cancelled(&self.0);
    }

    /// Whether the handle or a clone of it was [cancelled](Self::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn flag(&self) -> &Flag {
        &self.0
    }
}
