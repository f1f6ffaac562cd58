//! Handles, times and actions that bodies leave on their thread for the running attempts.
//!
//! The shield has a flag for the innermost attempt that has an entry here. So an attempt whose body leaves nothing pays
//! for one look at a word that is in the cache, and the last entry belongs to the innermost attempt that has one.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::shield;

thread_local! {
    /// One entry for each running attempt of this thread that has left something, the innermost last.
    static LEFT: RefCell<Vec<Left>> = const { RefCell::new(Vec::new()) };
}

/// Work that may use a leaner plan.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use toma::leaner::Lean;
///
/// /// Three plans, the fastest first.
/// #[derive(Default)]
/// struct Plans(AtomicUsize);
///
/// impl Lean for Plans {
///     fn lean(&self) -> bool {
///         self.0.fetch_update(Relaxed, Relaxed, |plan| (plan < 2).then_some(plan + 1)).is_ok()
///     }
/// }
///
/// let plans = Plans::default();
/// assert_eq!([plans.lean(), plans.lean(), plans.lean()], [true, true, false]);
/// ```
pub trait Lean: Send + Sync {
    /// Makes the work use a leaner plan from now on, because an attempt has run out of memory; false if there is none.
    ///
    /// Called on the thread of the call, after the failed attempt's values and its error are dropped and undone, and
    /// with no lock held. A panic counts as false.
    fn lean(&self) -> bool;
}

/// The handles, times and actions that the body of one attempt has left.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) offers: Vec<Arc<dyn Lean>>,
    pub(crate) repeated: Duration,
    pub(crate) keeps_size: bool,
    /// Actions that run once all ranks have agreed that the attempt succeeded.
    pub(crate) when_agreed: Vec<Action>,
}

/// An action that runs once.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

impl Left {
    /// Adds the entry of a later part of the same attempt.
    pub(crate) fn add(&mut self, later: Self) {
        self.offers.extend(later.offers);
        self.repeated = self.repeated.saturating_add(later.repeated);
        self.keeps_size |= later.keeps_size;
        self.when_agreed.extend(later.when_agreed);
    }
}

/// True if entries are kept for the current code: not outside of attempts, and not in dry runs.
pub(crate) fn is_kept() -> bool {
    shield::inside().is_attempt() && !shield::is_dry()
}

/// Changes the entry of the running attempt. Does nothing if entries are not kept here, and while the thread ends.
pub(super) fn with(change: impl FnOnce(&mut Left)) {
    let inside = shield::inside();
    if !is_kept() {
        return;
    }
    let changed = LEFT.try_with(|left| {
        let mut left = left.borrow_mut();
        if !inside.has_left() {
            left.push(Left::default());
        }
        left.last_mut().map(change)
    });
    if changed.is_ok() {
        shield::has_left();
    }
}

/// Takes the entry of the attempt that has just ended or been polled, which must have one.
#[cold]
pub(crate) fn take() -> Left {
    LEFT.try_with(|left| left.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}
