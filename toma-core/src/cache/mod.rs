//! The size cache: what worked, remembered for the next call.
//!
//! A cache maps a [`Place`] (which function, called from where, with which key) to
//! [`Remembered`] evidence. These come with the library:
//!
//! | cache | one entry per | a warm call costs |
//! |---|---|---|
//! | [`StacktraceMemoryCache`] (the default) | calling line, chain of functions above it, free memory | one stack walk |
//! | [`GlobalCache`](crate::GlobalCache) | function, or line of an inline form | a few nanoseconds |
//! | `PersistentCache` (feature `persistent`) | the same, and crate version, device and total memory; in a file | a few nanoseconds |
//! | [`NoCache`](crate::NoCache) | nothing is remembered | nothing |
//!
//! A warm call writes no shared memory, not even a lock: each thread keeps a memo of what it looked
//! up, which is valid while the cache's generation (one load) has not moved. Only learning something
//! new moves it. So threads do not slow each other down, and neither does the number of entries. And
//! a cache that has learned nothing yet is not asked at all: a program that never runs out of memory
//! never walks its stack.
//!
//! No burst pins a size: after 64 calls that started at a settled size below their `initial` and learned no
//! other, and a minute, one call [probes](Remembered::probes) at twice the size. Policies that
//! [measure](crate::policy::Needs) find their way back by themselves and do not probe so.

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
/// A custom cache decides what tells two calls apart, usually by one of the keys that a [`Place`]
/// gives, and where evidence is kept. It must be fast: `recall` runs at every call.
pub trait SizeCache: Debug + Sync {
    /// The instance that a cache chosen by type uses.
    ///
    /// A static inside a generic function is shared by all its instantiations, which is why the
    /// type has to name its own.
    fn shared() -> &'static Self
    where
        Self: Sized;

    /// Whether anything is ever remembered; otherwise reports promise nothing for the next call.
    fn remembers(&self) -> bool {
        true
    }

    /// What reports call it: the type's own name unless the cache says otherwise.
    fn name(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        let path = path.split('<').next().unwrap_or(path);
        path.rsplit("::").next().unwrap_or(path)
    }

    /// The functions above the call that tell an entry of this place from others, for people; none
    /// unless the cache keys on them.
    fn callers(&self, place: &Place<'_>) -> Callers {
        let _ = place;
        Callers::default()
    }

    /// What is known about the place, if anything.
    fn recall(&self, place: &Place<'_>) -> Option<Remembered>;

    /// Keeps what a call has learned. Called at most once per call, and only by calls that learned
    /// something.
    fn remember(&self, place: &Place<'_>, learned: Remembered);

    /// Keeps what a call has measured that learned no other size, for the next `recall`: only of calls
    /// whose policy measures, and where something is known about the place.
    ///
    /// It runs at every such call, so it should write no memory that threads share; the caches of the
    /// library keep it for the thread alone. Unless a cache implements it nothing is kept, and policies
    /// that measure do not see the time that warm calls take.
    fn note(&self, place: &Place<'_>, measurements: &Measurements) {
        let _ = (place, measurements);
    }
}

/// The evidence kept for one place at one level of free memory.
///
/// Sizes are in items, or in [cost units](crate::execute::With::by_cost) where the calls there have costs.
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
    /// What was measured, where the policy asked for it; times in it count up to `learned`. Apart,
    /// because it is larger than all the rest, which every warm call copies.
    pub measurements: Option<Arc<Measurements>>,
    /// Whether the call should start at twice the settled size: a probe. Only ever set by `recall`, and
    /// only for a call that may use more than `settled`.
    ///
    /// One burst of other work may settle a size far below what fits. So after 64 calls that started at the
    /// size and learned no other, and a minute, one call probes.
    pub probes: bool,
    /// Probes beyond the settled size that have failed in a row; each doubles both numbers.
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

    /// The same for a call that probes.
    #[cold]
    fn probing(&self) -> Self {
        Self { probes: true, ..self.clone() }
    }

    /// The same for one thread alone: a warm call counts the owners of the record, and threads that
    /// counted in one place would slow each other down.
    fn unshared(&self) -> Self {
        Self {
            measurements: self.measurements.as_ref().map(|measurements| Arc::new(**measurements)),
            ..self.clone()
        }
    }

    /// Takes the record as it is now; allocates nothing where there is one that nothing else holds.
    fn note(&mut self, measurements: &Measurements) {
        self.learned = clock::wall();
        match &mut self.measurements {
            Some(kept) => *Arc::make_mut(kept) = *measurements,
            None => self.measurements = Some(Arc::new(*measurements)),
        }
    }
}
