use super::over_store::over_store;
use super::store::Store;
use super::{Entry, Key, Place, Remembered, SizeCache};
use crate::policy::Measurements;

/// One entry per annotated function, or per line of an inline form, wherever it is called from.
///
/// The right cache where the stack is no guide: in work-stealing pools and async executors, or when all callers do
/// the same work. Add the `key` option to separate, say, image sizes.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, execute};
///
/// let sizes = GlobalCache::new();     // an instance of one's own; the shared one is chosen by type
/// sizes.seed("resize", 64);
/// execute::with::<GlobalCache>().cache(&sizes).name("resize").range(0..256, 256, |start, end| {
///     assert!(end - start <= 64);
/// });
/// ```
#[derive(Debug)]
pub struct GlobalCache {
    store: Store,
}

over_store!(GlobalCache);

impl SizeCache for GlobalCache {
    fn shared() -> &'static Self {
        static SHARED: GlobalCache = GlobalCache::new();
        &SHARED
    }

    #[inline]
    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        self.store.recall(place, || place.by_function())
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        // One entry per function, for all levels of free memory: that is the meaning of global.
        self.store.remember(&place.by_function(), place, Remembered { free_bytes: None, ..learned });
    }

    fn note(&self, place: &Place<'_>, measurements: &Measurements) {
        self.store.note(place, || place.by_function(), measurements);
    }
}
