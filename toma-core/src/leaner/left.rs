//! What bodies leave on their thread for the attempts that run there.
//!
//! The shield says whether the innermost attempt has anything here. So an attempt whose body leaves nothing pays one
//! look at a word that is in the cache, and the last entry belongs to the innermost attempt that has left something.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use crate::shield;

thread_local! {
    /// One entry for each attempt around here that has left something, the innermost last.
    static LEFT: RefCell<Vec<Left>> = const { RefCell::new(Vec::new()) };
}

/// Work that may use a leaner plan.
pub trait Lean: Send + Sync {
    /// Makes the work use a leaner plan from now on, for an attempt that has run out of memory; false when there is
    /// none.
    ///
    /// It runs on the thread that works, after the failed attempt's values and its error are dropped and undone, and
    /// with no lock held. One that panics has no leaner plan.
    fn lean(&self) -> bool;
}

/// What the body of one attempt has left.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) offers: Vec<Arc<dyn Lean>>,
    pub(crate) repeated: Duration,
    pub(crate) keeps_size: bool,
    /// What runs once all ranks have agreed that the attempt succeeded.
    pub(crate) when_agreed: Vec<Action>,
}

/// Runs once.
pub(crate) type Action = Box<dyn FnOnce() + Send>;

impl Left {
    /// Adds what the same attempt has left later.
    pub(crate) fn add(&mut self, later: Self) {
        self.offers.extend(later.offers);
        self.repeated = self.repeated.saturating_add(later.repeated);
        self.keeps_size |= later.keeps_size;
        self.when_agreed.extend(later.when_agreed);
    }
}

/// Whether bodies that run now leave anything: not outside of attempts, and not in dry runs.
pub(crate) fn is_kept() -> bool {
    shield::inside().is_attempt() && !shield::is_dry()
}

/// Changes what the attempt that runs has left; nothing where it is not kept, and while the thread ends.
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

/// What the attempt has left that has just ended, or been polled, and has left something.
#[cold]
pub(crate) fn take() -> Left {
    LEFT.try_with(|left| left.borrow_mut().pop()).ok().flatten().unwrap_or_default()
}
