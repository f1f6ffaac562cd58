//! The size cache: sizes that worked, kept for the next call.
//!
//! A cache maps a [`Place`] (a function, its caller and its key) to [`Remembered`] evidence. These caches come with
//! the library:
//!
//! | cache | one entry per | a warm call costs |
//! |---|---|---|
//! | [`StacktraceMemoryCache`] (the default) | calling line, chain of functions above it, free memory | one stack walk |
//! | [`GlobalCache`](crate::GlobalCache) | function, or line of an inline form | a few nanoseconds |
//! | `PersistentCache` (feature `persistent`) | the same, and crate version, device and total memory; in a file | a few nanoseconds |
//! | [`NoCache`](crate::NoCache) | nothing is remembered | nothing |
//!
//! A warm call writes no shared memory, not even a lock: each thread keeps a memo of its lookups, which is valid
//! until the cache's generation (one load) changes. Only learning something new changes the generation. So threads
//! do not slow each other down, and the number of entries does not matter. A cache that has learned nothing yet is
//! not asked at all: a program that never runs out of memory never walks its stack.
//!
//! No burst of other work pins a size: after 64 calls that started at a settled size below their `initial` and
//! learned no other, and a minute, one call [probes](Remembered::probes) at twice the size. Policies that
//! [measure](crate::policy::Needs) recover by themselves and do not probe this way.

pub(crate) mod default;
mod doubts;
mod entry;
pub(crate) mod global;
mod key;
mod levels;
mod memo;
pub(crate) mod none;
mod over_store;
#[cfg(feature = "persistent")]
pub(crate) mod persistent;
pub(crate) mod stacktrace;
mod store;
mod table;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::SystemTime;

pub(crate) use default::DefaultCache;
pub use default::set_default;
pub use entry::Entry;
pub use key::{Key, Place};
#[cfg(feature = "persistent")]
pub use persistent::PersistentEntry;
pub(crate) use stacktrace::StacktraceMemoryCache;

pub use crate::stack::Callers;

use crate::clock;
use crate::policy::{Bounds, Measurements};

/// Remembers sizes from call to call.
///
/// A custom cache decides which calls share an entry, usually by one of the keys of a [`Place`], and where evidence
/// is kept. It must be fast, because `recall` runs at every call.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::collections::HashMap;
/// use std::sync::{LazyLock, Mutex};
/// use toma::cache::{Place, Remembered, SizeCache};
/// use toma::{classify::OutOfMemory, execute, report};
///
/// /// One entry for each name.
/// #[derive(Debug, Default)]
/// struct ByName(Mutex<HashMap<String, Remembered>>);
///
/// impl SizeCache for ByName {
///     fn shared() -> &'static Self {
///         static SHARED: LazyLock<ByName> = LazyLock::new(ByName::default);
///         &SHARED
///     }
///
///     fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
///         self.0.lock().unwrap().get(&place.name().to_string()).cloned()
///     }
///
///     fn remember(&self, place: &Place<'_>, learned: Remembered) {
///         self.0.lock().unwrap().insert(place.name().to_string(), learned);
///     }
/// }
///
/// let embed = || {
///     execute::with::<ByName>().name("embed").batch(8, |size| {
///         if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(size) }
///     })
/// };
/// assert_eq!((embed()?, report::last().unwrap().out_of_memory), (2, 2));
/// assert_eq!((embed()?, report::last().unwrap().out_of_memory), (2, 0));
/// # Ok::<(), OutOfMemory>(())
/// ```
pub trait SizeCache: Debug + Sync {
    /// Returns the instance for calls that choose the cache by type.
    ///
    /// Each type has to name its own instance, because a static inside a generic function is shared by all
    /// instantiations.
    fn shared() -> &'static Self
    where
        Self: Sized;

    /// True if the cache ever remembers anything; otherwise reports promise nothing for the next call.
    fn remembers(&self) -> bool {
        true
    }

    /// Returns the name of the cache in reports, by default the type's own name.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        let path = path.split('<').next().unwrap_or(path);
        path.rsplit("::").next().unwrap_or(path)
    }

    /// Returns the functions above the call that distinguish entries of this place, for people; none unless the
    /// cache keys on them.
    fn callers(&self, place: &Place<'_>) -> Callers {
        let _ = place;
        Callers::default()
    }

    /// Returns the evidence about the place, if there is any.
    fn recall(&self, place: &Place<'_>) -> Option<Remembered>;

    /// Keeps the evidence that a call has learned. Called at most once per call, and only by calls that learned
    /// something.
    fn remember(&self, place: &Place<'_>, learned: Remembered);

    /// Keeps the measurements of a call that learned no other size, for the next `recall`. Called only if the
    /// policy measures and there is evidence about the place.
    ///
    /// It runs at every such call, so it should not write shared memory; the caches of the library keep the
    /// measurements for the thread alone. By default nothing is kept, and policies that measure do not see the time
    /// of warm calls.
    fn note(&self, place: &Place<'_>, measurements: &Measurements) {
        let _ = (place, measurements);
    }
}

/// The evidence about one place at one level of free memory.
///
/// Sizes are in items, or in [cost units](crate::execute::With::by_cost) where the calls there have costs.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, classify::OutOfMemory, execute};
///
/// let sizes = GlobalCache::new();
/// execute::with::<GlobalCache>().cache(&sizes).batch(8, |size| {
///     if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// let remembered = &sizes.entries()[0].remembered;
/// assert_eq!((remembered.settled, remembered.bounds.smallest_failure), (2, Some(4)));
/// # Ok::<(), OutOfMemory>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The size that worked after the last change.
    pub settled: usize,
    /// The sizes known to work and to fail.
    pub bounds: Bounds,
    /// Free bytes of the memory source when this was learned, if they could be read.
    pub free_bytes: Option<u64>,
    /// When this was learned.
    pub learned: SystemTime,
    /// Measurements, if the policy requested them; their times count up to `learned`. Behind a pointer, because
    /// they are larger than all other fields together, which every warm call copies.
    pub measurements: Option<Arc<Measurements>>,
    /// True if the call should start at twice the settled size, as a probe. Set only by `recall`, and only for a
    /// call that may use more than `settled`.
    ///
    /// One burst of other work may settle a size far below the largest that fits. So after 64 calls that started at
    /// the size and learned no other, and a minute, one call probes.
    pub probes: bool,
    /// Number of probes beyond the settled size that have failed in a row; each doubles the 64 calls and the
    /// minute.
    pub failed_probes: u32,
}

impl Remembered {
    /// Evidence that the size `settled` works, learned now.
    pub fn new(settled: usize) -> Self {
        Self {
            settled,
            bounds: Bounds::default(),
            free_bytes: None,
            learned: clock::wall(),
            measurements: None,
            probes: false,
            failed_probes: 0,
        }
    }

    /// Copies the evidence for a call that probes.
    #[cold]
    fn probing(&self) -> Self {
        Self { probes: true, ..self.clone() }
    }

    /// Copies the evidence for one thread alone: a warm call clones the `Arc`, and threads that share its reference
    /// count would slow each other down.
    fn unshared(&self) -> Self {
        Self {
            measurements: self.measurements.as_ref().map(|measurements| Arc::new(**measurements)),
            ..self.clone()
        }
    }

    /// Stores the current measurements; allocates nothing if nothing else holds the old ones.
    fn note(&mut self, measurements: &Measurements) {
        self.learned = clock::wall();
        match &mut self.measurements {
            Some(kept) => *Arc::make_mut(kept) = *measurements,
            None => self.measurements = Some(Arc::new(*measurements)),
        }
    }
}
