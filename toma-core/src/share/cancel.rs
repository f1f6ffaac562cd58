//! Ending waits from outside.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::wake::wake;

/// Ends waits and retries of the calls that were given it, from any thread: a call that waits makes the
/// attempt it waited for, and what fails from then on goes through.
///
/// Without it, a call that waits for a device ends its wait when the bound or the deadline has passed
/// and not before. Clones are the same handle. An attempt that runs is left alone: a body that should
/// end in the middle asks [`is_cancelled`](Self::is_cancelled) itself.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::share::Cancel;
///
/// let cancel = Cancel::new();
/// let theirs = cancel.clone();
/// std::thread::spawn(move || theirs.cancel()).join().unwrap();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Set under the lock of `waiting`, so that nobody registers too late.
    cancelled: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    keys: u64,
    wakers: BTreeMap<u64, Waker>,
}

impl Cancel {
    /// A handle that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels, for good. It returns at once: the calls end when their threads and tasks get to it.
    pub fn cancel(&self) {
        let mut waiting = self.waiting();
        self.state.cancelled.store(true, Ordering::Release);
        let wakers = mem::take(&mut waiting.wakers);
        drop(waiting);
        wake(wakers.into_values());
    }

    /// Whether somebody has [cancelled](Self::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.load(Ordering::Acquire)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.state.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits and wants to be woken by a cancellation.
#[derive(Debug)]
pub(super) struct Registered<'a> {
    cancel: &'a Cancel,
    key: u64,
}

impl<'a> Registered<'a> {
    pub(super) fn new(cancel: &'a Cancel) -> Self {
        let mut waiting = cancel.waiting();
        waiting.keys += 1;
        Self { cancel, key: waiting.keys }
    }

    /// Wakes `waker` when somebody cancels; false when somebody has.
    pub(super) fn register(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut waiting = self.cancel.waiting();
        if self.cancel.is_cancelled() {
            return false;
        }
        let before = waiting.wakers.insert(self.key, waker);
        drop(waiting);
        drop(before);
        true
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        // In two steps: a waker is anybody's code, and must not be dropped under the lock.
        let waker = self.cancel.waiting().wakers.remove(&self.key);
        drop(waker);
    }
}
