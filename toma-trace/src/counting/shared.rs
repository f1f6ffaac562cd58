//! State shared by the threads of a recording, and the running recording.

use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::failure::Failures;
use super::known::KnownSources;
use super::makers::AllMakers;
use super::ring::Ring;
use crate::event::Node;
use crate::lines::{Lines, Rows};
use toma_core::marks::Function;

/// State shared by all threads of a recording.
pub(super) struct Shared {
    pub(super) number: u32,
    pub(super) rows: Arc<Rows>,
    pub(super) known: Mutex<KnownSources>,
    /// Ring of events, if they are kept.
    pub(super) ring: Option<Ring>,
    /// Number of births so far, if events are not kept.
    pub(super) births: AtomicU32,
    pub(super) makers: AllMakers,
    pub(super) position: fn() -> Node,
    pub(super) after_backward: fn(),
    pub(super) thread_begins: fn(),
    pub(super) devices: usize,
    pub(super) failures: Failures,
    pub(super) threads: AtomicU32,
}

/// Number that stands for no recording.
pub(super) const NONE: u32 = 0;

/// Number of the running recording.
pub(super) static NUMBER: AtomicU32 = AtomicU32::new(NONE);
pub(super) static RUNNING: RwLock<Option<Arc<Shared>>> = RwLock::new(None);

/// Returns the number of the running recording.
pub(super) fn number() -> Option<u32> {
    Some(NUMBER.load(Acquire)).filter(|number| *number != NONE)
}

/// Returns true if a recording runs.
#[must_use]
pub fn runs() -> bool {
    NUMBER.load(Relaxed) != NONE
}

/// Returns the running recording.
pub(super) fn running() -> Option<Arc<Shared>> {
    RUNNING.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Shared {
    /// Starts this recording, in place of the running one.
    pub(super) fn run(self: &Arc<Self>, running: &mut Option<Arc<Self>>) {
        *running = Some(Arc::clone(self));
        NUMBER.store(self.number, Release);
    }

    pub(super) fn known(&self) -> MutexGuard<'_, KnownSources> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lines(&self) -> Lines {
        let sources = self.known().distinguished();
        Lines::new(&sources, &self.rows)
    }

    /// Counts a call of a function. Returns its table, if that is due.
    pub(super) fn called(&self, function: &'static Function) -> Option<Lines> {
        function.every?;
        let is_due = self.known().is_due(function);
        let lines = is_due.then(|| self.lines().function(function.name))?;
        let columns = function.columns.iter().copied();
        Some(if columns.len() == 0 { lines } else { lines.columns(columns) })
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("number", &self.number)
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}
