//! Ending waits from outside.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use super::process::PerProcess;
use super::wait::wake;

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
#[derive(Clone, Debug)]
pub struct Cancel {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// Set under the lock of `wakers`, so that no registration comes too late.
    cancelled: AtomicBool,
    wakers: PerProcess<Mutex<Wakers>>,
}

type Wakers = BTreeMap<u64, Waker>;

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}

impl Cancel {
    /// A handle that is not cancelled.
    pub fn new() -> Self {
        let wakers = PerProcess::new(|_| Mutex::default());
        Self { state: Arc::new(State { cancelled: AtomicBool::new(false), wakers }) }
    }

    /// Cancels, for good. It returns at once: the calls end when their threads and tasks get to it.
    pub fn cancel(&self) {
        let mut wakers = self.wakers();
        self.state.cancelled.store(true, Ordering::Release);
        let woken = mem::take(&mut *wakers);
        drop(wakers);
        wake(woken.into_values());
    }

    /// Whether the handle or a clone of it was [cancelled](Self::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.state.cancelled.load(Ordering::Acquire)
    }

    fn wakers(&self) -> MutexGuard<'_, Wakers> {
        self.state.wakers.lock_own()
    }
}

/// A wait that is to be woken by a cancellation.
#[derive(Debug)]
pub(super) struct Registered<'a> {
    cancel: &'a Cancel,
    key: u64,
}

impl<'a> Registered<'a> {
    pub(super) fn new(cancel: &'a Cancel) -> Self {
        // Of the whole process, so that a child of `fork` goes on with other keys.
        static KEYS: AtomicU64 = AtomicU64::new(0);
        Self { cancel, key: KEYS.fetch_add(1, Ordering::Relaxed) }
    }

    /// Has `waker` woken by a cancellation; false when there was one.
    pub(super) fn register(&self, waker: &Waker) -> bool {
        let waker = waker.clone();
        let mut wakers = self.cancel.wakers();
        if self.cancel.is_cancelled() {
            return false;
        }
        let before = wakers.insert(self.key, waker);
        drop(wakers);
        drop(before);
        true
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        // In two steps: a waker is foreign code, and must not be dropped under the lock.
        let waker = self.cancel.wakers().remove(&self.key);
        drop(waker);
    }
}
