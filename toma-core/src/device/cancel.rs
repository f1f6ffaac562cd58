//! A handle that ends waits from outside.

use std::sync::atomic::Ordering;

use super::sleepers::{self, Flag};

/// Ends waits and retries of the calls that were given this handle, from any thread: a waiting call makes its
/// attempt, and later failures reach the caller.
///
/// Without a handle, the wait of a call ends only when its bound or deadline has passed. Clones are the same
/// handle. A running attempt goes on: a body that should end early has to check
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

    /// Cancels permanently. Returns at once: the calls end when their threads and tasks notice.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
        sleepers::wake_cancelled(&self.0);
    }

    /// True if the handle or a clone of it was [cancelled](Self::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    pub(super) fn flag(&self) -> &Flag {
        &self.0
    }
}
