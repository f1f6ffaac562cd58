//! Observers of every call of the process.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::Observer;
use crate::switches::Switches;

type SharedObserver = Arc<dyn Observer + Send>;

static OBSERVERS: RwLock<Vec<SharedObserver>> = RwLock::new(Vec::new());

/// Registers `observer` for every call of the process, until the guard is dropped.
///
/// Calls that begin before the registration or after the drop are not observed. Calls that run when the guard is
/// dropped are observed to their end. The `observer` option observes a single call.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use toma::observe::{Event, everywhere};
///
/// let events = Arc::new(AtomicUsize::new(0));
/// let seen = Arc::clone(&events);
/// let guard = everywhere(move |_: &Event<'_>| {
///     seen.fetch_add(1, Ordering::Relaxed);
/// });
/// toma::execute::range(0..4, 4, |_start, _end| ());
/// drop(guard);
/// assert!(events.load(Ordering::Relaxed) >= 3);
/// ```
pub fn everywhere(observer: impl Observer + Send + 'static) -> Everywhere {
    let observer: SharedObserver = Arc::new(observer);
    let mut observers = OBSERVERS.write().unwrap_or_else(PoisonError::into_inner);
    observers.push(Arc::clone(&observer));
    Switches::set(Switches::OBSERVED, true);
    Everywhere { observer }
}

/// Ends the observation when dropped.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::observe::{Event, everywhere};
///
/// let observed = everywhere(|event: &Event<'_>| println!("{}", event.name));
/// toma::execute::batch(8, |_| ());
/// drop(observed); // later calls are not observed
/// ```
#[must_use = "the observation ends when the guard is dropped"]
pub struct Everywhere {
    observer: SharedObserver,
}

impl fmt::Debug for Everywhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Everywhere").finish_non_exhaustive()
    }
}

impl Drop for Everywhere {
    fn drop(&mut self) {
        let mut observers = OBSERVERS.write().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|other| !Arc::ptr_eq(other, &self.observer));
        Switches::set(Switches::OBSERVED, !observers.is_empty());
    }
}

pub(super) fn observers() -> Vec<SharedObserver> {
    OBSERVERS.read().unwrap_or_else(PoisonError::into_inner).clone()
}
