//! State of a thread that belongs to a library, and that a failed attempt must not leave behind.
//!
//! Libraries keep modes per thread: whether gradients are recorded, which precision operators
//! choose. Code that switches such a mode and panics before it switches back leaves the thread in
//! it, and the retry computes something else than the first attempt would have. A library that
//! knows its modes [registers](register) them here, and then every attempt of every form is
//! guarded, whatever the body looks like:
//!
//! - An attempt that **fails**, by a panic or by an error, has the modes put back before anything
//!   else happens: before observers hear of it, and before `before_retry`. The library may
//!   [drop](ThreadState::recover) there what else such an attempt leaves on the thread.
//! - An attempt that **succeeds** is none of our business: modes that the body switched and did not
//!   switch back stay, as they would without a loop around it.
//! - The modes of an **async** body are the task's. While it waits the thread has those from before
//!   the poll, so that other tasks never see them, and the task takes its own along to whatever
//!   thread polls it next. A task that ends with the modes it began with leaves the thread those
//!   of before the poll.
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
//! With nothing registered an attempt costs one load more.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use crate::shield;

static REGISTERED: OnceLock<&'static dyn ThreadState> = OnceLock::new();

/// The modes of a thread, as their library packs them.
///
/// Of a fixed size, because it is taken at every attempt and must not allocate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saved(pub [u64; 5]);

/// Modes that a library keeps per thread.
///
/// All functions speak of the calling thread, run around every attempt and every poll, and must not
/// panic.
pub trait ThreadState: fmt::Debug + Sync {
    /// The modes now. It runs at every attempt, so it should cost nanoseconds.
    fn save(&self) -> Saved;

    /// Puts modes in force that were saved, on this thread or on another.
    fn restore(&self, saved: &Saved);

    /// The same after an attempt that failed, together with whatever else such an attempt leaves on a
    /// thread: memory that a later call would free.
    fn recover(&self, saved: &Saved) {
        self.restore(saved);
    }
}

/// Guards the attempts of the whole process by `state`, for good.
///
/// # Errors
/// Gives `state` back when a library has registered before: there is room for one.
pub fn register(state: &'static dyn ThreadState) -> Result<(), &'static dyn ThreadState> {
    REGISTERED.set(state)
}

/// Whether this thread would retry out of memory, were it to fail now: in this attempt or one around
/// it.
///
/// The error is not read then, so a library that takes milliseconds to explain one can save them. It
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

/// The modes from before an attempt or a poll; nothing when no library has registered.
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

    // Inlined although few programs come here: out of line it takes a third of what reading the modes of
    // libtorch takes.
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

    /// After an attempt that failed.
    #[inline]
    pub(crate) fn recover(&self) {
        if let Self(Some((state, saved))) = self {
            state.recover(saved);
        }
    }

    fn saved(&self) -> Saved {
        self.0.map(|(_, saved)| saved).unwrap_or_default()
    }

    /// These modes of the same library.
    fn with(self, saved: Saved) -> Self {
        Self(self.0.map(|(state, _)| (state, saved)))
    }
}

/// Puts modes back when it is dropped, because other people's code runs meanwhile and may panic.
struct PutBack(Before);

impl Drop for PutBack {
    fn drop(&mut self) {
        self.0.put_back();
    }
}

/// An async body with the modes that are its own.
pub(crate) struct Tasked<'a, F> {
    body: Pin<&'a mut Option<F>>,
    /// Of a body that waits.
    waits_with: Option<Modes>,
}

#[derive(Clone, Copy)]
struct Modes {
    /// Those of the thread that polled the body first.
    inherited: Saved,
    own: Saved,
}

impl<'a, F: Future> Tasked<'a, F> {
    pub(crate) fn new(body: Pin<&'a mut Option<F>>) -> Self {
        Self { body, waits_with: None }
    }

    /// Polls the body, which finds its own modes. Those of the thread, which the caller has read, come
    /// back with what is returned, unless the body is done with modes that it did not begin with.
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

/// A body that is dropped while it waits may hold guards that switch modes: its own.
impl<F> Drop for Tasked<'_, F> {
    fn drop(&mut self) {
        if let Some(Modes { own, .. }) = self.waits_with.take() {
            let thread = PutBack(Before::now());
            thread.0.with(own).put_back();
            self.body.set(None);
        }
    }
}
