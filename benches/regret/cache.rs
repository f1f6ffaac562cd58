//! A cache for the sizes of one call site.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use toma::cache::{Place, Remembered, SizeCache};
use toma::policy::Measurements;

/// Caches one size, whatever is free. Other caches distinguish entries by the free memory of the host if no device is
/// given, so figures would depend on the load of the machine.
#[derive(Debug)]
pub(crate) struct OnePlace(Mutex<Option<Remembered>>);

impl OnePlace {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The cached size.
    pub(crate) fn settled(&self) -> Option<usize> {
        self.kept().as_ref().map(|kept| kept.settled)
    }

    fn kept(&self) -> MutexGuard<'_, Option<Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SizeCache for OnePlace {
    fn shared() -> &'static Self {
        static SHARED: OnePlace = OnePlace::new();
        &SHARED
    }

    fn recall(&self, _place: &Place<'_>) -> Option<Remembered> {
        self.kept().clone()
    }

    fn remember(&self, _place: &Place<'_>, learned: Remembered) {
        *self.kept() = Some(learned);
    }

    fn note(&self, _place: &Place<'_>, measurements: &Measurements) {
        if let Some(kept) = &mut *self.kept() {
            (kept.learned, kept.measurements) =
                (Remembered::new(kept.settled).learned, Some(Arc::new(*measurements)));
        }
    }
}
