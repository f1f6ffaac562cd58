use super::over_store::over_store;
use super::store::Store;
use super::{Callers, Entry, Key, Place, Remembered, SizeCache};
use crate::policy::Measurements;

/// The default: one entry per calling line, chain of functions above it, and level of free memory.
///
/// The same function run from training and from evaluation, or on two models, needs two sizes; the stack
/// distinguishes them without a name for either. The key is the calling line and the functions above it, up to
/// [`FRAME_LIMIT`](crate::stack::FRAME_LIMIT) frames: it differs for two lines, for two chains of functions and for
/// recursion depths up to the limit. The [`callers`](Entry::callers) of an entry are these functions. Free memory
/// only chooses among entries of one key, and is read only if there are several.
///
/// In work-stealing pools and async executors the frames above a task are the pool's own: use
/// [`GlobalCache`](crate::GlobalCache) or the `key` option there.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{StacktraceMemoryCache, classify::OutOfMemory, execute};
///
/// /// Runs a model that has memory for so many items.
/// fn run(most: usize) -> Result<usize, OutOfMemory> {
///     execute::with::<StacktraceMemoryCache>().batch(8, |size| {
///         if size > most { Err(OutOfMemory::new(None)) } else { Ok(size) }
///     })
/// }
///
/// #[inline(never)]
/// fn train() -> Result<usize, OutOfMemory> {
///     run(2)
/// }
///
/// #[inline(never)]
/// fn evaluate() -> Result<usize, OutOfMemory> {
///     run(4)
/// }
///
/// assert_eq!((train()?, evaluate()?), (2, 4)); // one line, two entries
/// # Ok::<(), OutOfMemory>(())
/// ```
#[derive(Debug)]
pub struct StacktraceMemoryCache {
    store: Store,
}

over_store!(StacktraceMemoryCache);

impl SizeCache for StacktraceMemoryCache {
    fn shared() -> &'static Self {
        static SHARED: StacktraceMemoryCache = StacktraceMemoryCache::new();
        &SHARED
    }

    fn callers(&self, place: &Place<'_>) -> Callers {
        place.callers()
    }

    #[inline]
    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        self.store.recall(place, || place.by_stack())
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        self.store.remember(&place.by_stack(), place, learned);
    }

    fn note(&self, place: &Place<'_>, measurements: &Measurements) {
        self.store.note(place, || place.by_stack(), measurements);
    }
}
