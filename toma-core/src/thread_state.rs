//! Per-thread state of a library that a failed attempt must not leave behind.
//!
//! Libraries keep modes per thread, such as the recording of gradients or the precision of operators. Code that
//! switches such a mode and panics before it switches back leaves the thread in that mode, and the retry computes
//! something else than the first attempt would have. A library [registers](register) its modes here, and then every
//! attempt of every form is guarded, whatever the body looks like:
//!
//! - An attempt that **fails**, by a panic or by an error, has the modes restored before anything else happens: before
//!   observers are notified, and before `before_retry`. One that [ranks](crate::ranks) repeat because it has failed
//!   elsewhere has them restored after the vote, unless it is async. The library may [drop](ThreadState::recover) other state there
//!   that such an attempt leaves on the thread.
//! - An attempt that **succeeds** is not touched: modes that the body switched and did not switch back stay, as they
//!   would without a loop around it.
//! - The modes of an **async** body belong to its task. While the task waits, the thread has those from before the
//!   poll, so that other tasks never see the task's modes, and the task takes them along to whatever thread polls it
//!   next. A task that ends with the modes it began with leaves the thread those from before the poll.
//!
//! ```
//! # extern crate toma_core as toma;
//! use std::cell::Cell;
//! use toma::thread_state::{Saved, ThreadState, register};
//! use toma::{NoCache, classify::OutOfMemory, execute};
//!
//! thread_local! {
//!     static FAST_MATH: Cell<bool> = const { Cell::new(false) };
//! }
//!
//! #[derive(Debug)]
//! struct FastMath;
//!
//! impl ThreadState for FastMath {
//!     fn save(&self) -> Saved {
//!         Saved([FAST_MATH.get().into(), 0, 0, 0, 0])
//!     }
//!
//!     fn restore(&self, saved: &Saved) {
//!         FAST_MATH.set(saved.0[0] == 1);
//!     }
//! }
//!
//! register(&FastMath).unwrap();
//! let size = execute::with::<NoCache>().batch(8, |batch_size| {
//!     assert!(!FAST_MATH.get());
//!     FAST_MATH.set(true);
//!     if batch_size > 2 {
//!         return Err(OutOfMemory::new(None));
//!     }
//!     FAST_MATH.set(false);
//!     Ok(batch_size)
//! });
//! assert_eq!(size?, 2);
//! # Ok::<(), OutOfMemory>(())
//! ```
//!
//! If nothing is registered, an attempt costs one load more.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use crate::shield;

static REGISTERED: OnceLock<&'static dyn ThreadState> = OnceLock::new();

/// The modes of a thread, as their library packs them.
///
/// Has a fixed size, because it is taken at every attempt and must not allocate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved(pub [u64; 5]);

/// Modes that a library keeps per thread.
///
/// All functions apply to the calling thread, run around every attempt and every poll, and must not panic.
pub trait ThreadState: fmt::Debug + Sync {
    /// Returns the current modes. It runs at every attempt, so it should cost nanoseconds.
    fn save(&self) -> Saved;

    /// Restores modes that were saved, on this thread or on another.
    fn restore(&self, saved: &Saved);

    /// Restores modes after an attempt that failed, and releases other state that such an attempt leaves on a thread,
    /// such as memory that a later call would free.
    fn recover(&self, saved: &Saved) {
        self.restore(saved);
    }
}

/// Guards all attempts of the process by `state`, permanently.
///
/// # Errors
/// Returns `state` when a library has registered before: there is room for one.
pub fn register(state: &'static dyn ThreadState) -> Result<(), &'static dyn ThreadState> {
    REGISTERED.set(state)
}

/// Returns true if this thread would retry after running out of memory now, in this attempt or an outer one.
///
/// The error is not read in that case, so a library that takes milliseconds to explain one can save them. This function
/// allocates nothing and cannot panic.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::thread_state::would_retry_out_of_memory;
/// use toma::{NoCache, execute};
///
/// assert!(!would_retry_out_of_memory());
/// execute::with::<NoCache>().batch(2, |_| assert!(would_retry_out_of_memory()));
/// // There is no size below 1.
/// execute::with::<NoCache>().batch(1, |_| assert!(!would_retry_out_of_memory()));
/// ```
pub fn would_retry_out_of_memory() -> bool {
    shield::would_retry().out_of_memory()
}

/// The modes from before an attempt or a poll; empty when no library has registered.
#[derive(Clone, Copy)]
pub(crate) struct Before(Option<(&'static dyn ThreadState, Saved)>);

impl Before {
    #[inline]
    pub(crate) fn now() -> Self {
        match REGISTERED.get() {
            None => Self(None),
            Some(state) => Self::of(*state),
        }
    }

    // Inlined although few programs use it: a call takes a third of the time for reading the modes of libtorch.
    #[inline]
    fn of(state: &'static dyn ThreadState) -> Self {
        Self(Some((state, state.save())))
    }

    #[inline]
    fn put_back(&self) {
        if let Self(Some((state, saved))) = self {
            state.restore(saved);
        }
    }

    /// Restores the modes after an attempt that failed.
    #[inline]
    pub(crate) fn recover(&self) {
        if let Self(Some((state, saved))) = self {
            state.recover(saved);
        }
    }

    fn saved(&self) -> Saved {
        self.0.map(|(_, saved)| saved).unwrap_or_default()
    }

    /// Returns other modes of the same library.
    fn with(self, saved: Saved) -> Self {
        Self(self.0.map(|(state, _)| (state, saved)))
    }
}

/// Restores modes when it is dropped, because the user's code runs meanwhile and may panic.
struct PutBack(Before);

impl Drop for PutBack {
    fn drop(&mut self) {
        self.0.put_back();
    }
}

/// An async body with its own modes.
pub(crate) struct Tasked<'a, F> {
    body: Pin<&'a mut Option<F>>,
    /// The modes of a body that waits.
    waits_with: Option<Modes>,
}

#[derive(Clone, Copy)]
struct Modes {
    /// The modes of the thread that polled the body first.
    inherited: Saved,
    own: Saved,
}

impl<'a, F: Future> Tasked<'a, F> {
    pub(crate) fn new(body: Pin<&'a mut Option<F>>) -> Self {
        Self { body, waits_with: None }
    }

    /// Polls the body under its own modes. Then restores the modes of the thread, which the caller has read, unless the
    /// body is done with modes that it did not begin with.
    pub(crate) fn poll(&mut self, thread: Before, context: &mut Context<'_>) -> Poll<F::Output> {
        let thread = PutBack(thread);
        let waited = self.waits_with.take();
        if let Some(Modes { own, .. }) = waited {
            thread.0.with(own).put_back();
        }
        let body = self.body.as_mut().as_pin_mut().expect("the body is dropped with its task");
        let poll = body.poll(context);
        let inherited = waited.map_or_else(|| thread.0.saved(), |modes| modes.inherited);
        let own = Before::now().saved();
        if poll.is_pending() {
            self.waits_with = Some(Modes { inherited, own });
        } else if own != inherited {
            mem::forget(thread);
        }
        poll
    }
}

/// A body that is dropped while it waits may hold guards that switch modes, so it is dropped under its own modes.
impl<F> Drop for Tasked<'_, F> {
    fn drop(&mut self) {
        if let Some(Modes { own, .. }) = self.waits_with.take() {
            let thread = PutBack(Before::now());
            thread.0.with(own).put_back();
            self.body.set(None);
        }
    }
}
