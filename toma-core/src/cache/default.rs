//! The cache of calls that name none.

use std::any::TypeId;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::{Callers, Place, Remembered, SizeCache, StacktraceMemoryCache};
use crate::policy::Measurements;

/// The cache of calls that name none: [`StacktraceMemoryCache`] unless [`set_default`] changed it.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{DefaultCache, execute};
///
/// // The same as `execute::batch`, with options.
/// let size = execute::with::<DefaultCache>().name("embed").batch(8, |size| size);
/// assert_eq!(size, 8);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultCache;

type Chosen = Option<&'static dyn SizeCache>;

static CHOSEN: RwLock<Chosen> = RwLock::new(None);
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    // Reading the lock at every call would make threads wait for each other.
    static LAST_CHOSEN: Cell<(u64, Chosen)> = const { Cell::new((0, None)) };
}

/// Makes `C` the cache of all calls of the process that name none.
///
/// Evidence in other caches stays there. `set_default::<DefaultCache>()` goes back to the standard cache.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, StacktraceMemoryCache, cache::set_default};
///
/// set_default::<GlobalCache>();
/// # set_default::<StacktraceMemoryCache>();
/// ```
pub fn set_default<C: SizeCache + 'static>() {
    // Before the lock, because making a cache is foreign code, which may run loops. `DefaultCache` as the default
    // would call itself without end, so it stands for the standard cache.
    let is_itself = TypeId::of::<C>() == TypeId::of::<DefaultCache>();
    let cache: Chosen = if is_itself { None } else { Some(C::shared()) };
    let mut chosen = CHOSEN.write().unwrap_or_else(PoisonError::into_inner);
    *chosen = cache;
    GENERATION.fetch_add(1, Ordering::Release);
}

#[inline]
fn chosen() -> &'static dyn SizeCache {
    let generation = GENERATION.load(Ordering::Acquire);
    let (of, mut chosen) = LAST_CHOSEN.get();
    if of != generation {
        chosen = *CHOSEN.read().unwrap_or_else(PoisonError::into_inner);
        LAST_CHOSEN.set((generation, chosen));
    }
    chosen.unwrap_or_else(|| StacktraceMemoryCache::shared())
}

impl SizeCache for DefaultCache {
    fn shared() -> &'static Self {
        &Self
    }

    fn remembers(&self) -> bool {
        chosen().remembers()
    }

    fn name(&self) -> &'static str {
        chosen().name()
    }

    fn callers(&self, place: &Place<'_>) -> Callers {
        chosen().callers(place)
    }

    #[inline]
    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        chosen().recall(place)
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        chosen().remember(place, learned);
    }

    fn note(&self, place: &Place<'_>, measurements: &Measurements) {
        chosen().note(place, measurements);
    }
}
