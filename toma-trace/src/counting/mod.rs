//! A recording that runs: the marks and blocks of all threads, told to their stacks.

mod thread;

use std::collections::HashMap;
use std::fmt;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

pub use thread::{Pause, allocated, freed, out_of_memory, pause};

use self::thread::Ears;
use crate::lines::{LineId, Lines, Rows, Source, Sources};
use crate::marks::{self, Busy, Function, Session};
use crate::place::Place;

/// Counts what the lines of marked functions do to memory, on all threads, until it is finished or dropped.
///
/// Marks find it by themselves. An allocator tells it of its blocks by [`allocated`], [`freed`] and
/// [`out_of_memory`], on the thread that asks.
///
/// ```
/// # mod toma { pub use toma_trace as trace; }
/// # use toma::trace::marks::{Function, Line, expansion::{Frame, line}};
/// use toma::trace::Place;
/// use toma::trace::counting::{self, Counting};
///
/// # static STEP: Function = Function::new(
/// #     "step", "demo", "src/net.rs", &[Line::new(1, "fn step() {"), Line::new(2, "take(384)")],
/// # );
/// // `#[toma::profile] fn step() { take(384) }`, as the attribute marks it:
/// fn step() {
///     let _frame = Frame::enter(&STEP, 0);
///     line(&STEP, 1);
///     take(384)
/// }
///
/// fn take(bytes: u64) {
///     let block = counting::allocated(0, bytes);
///     counting::freed(0, bytes, block);
/// }
///
/// let counting = Counting::start(&[(Place::HOST, 1000)])?;
/// step();
/// let lines = counting.finish();
/// assert_eq!(lines.figures("step", 2, &Place::HOST).unwrap().peak, 1384);
/// # Ok::<(), toma::trace::marks::Busy>(())
/// ```
#[must_use = "nothing is counted once it is dropped"]
#[derive(Debug)]
pub struct Counting {
    _session: Session,
    shared: Arc<Shared>,
}

/// What all threads of a recording share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) number: u32,
    pub(super) rows: Arc<Rows>,
    known: Mutex<Known>,
}

/// The functions that were heard of.
#[derive(Default)]
struct Known {
    sources: Sources,
    /// By address.
    firsts: HashMap<usize, LineId>,
    /// Calls of functions that print themselves.
    calls: HashMap<LineId, u32>,
}

/// No recording, where a number is meant.
const NONE: u32 = 0;

/// The number of the recording that runs.
static NUMBER: AtomicU32 = AtomicU32::new(NONE);
static RUNNING: RwLock<Option<Arc<Shared>>> = RwLock::new(None);

impl Counting {
    /// Counts from now on, on devices of which so many bytes are allocated.
    ///
    /// # Errors
    ///
    /// When another recording runs.
    pub fn start(devices: &[(Place, u64)]) -> Result<Self, Busy> {
        static LAST: AtomicU32 = AtomicU32::new(NONE);
        let session = marks::start(&Ears)?;
        let number = LAST.fetch_add(1, Relaxed).wrapping_add(1).max(NONE + 1);
        let begun = Instant::now();
        let rows = Arc::new(Rows::new(devices).clock(move || begun.elapsed()));
        let shared = Arc::new(Shared { number, rows, known: Mutex::default() });
        *RUNNING.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&shared));
        NUMBER.store(number, Release);
        Ok(Self { _session: session, shared })
    }

    /// The rows there are so far. Stays that have not ended are not in them.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.shared.lines()
    }

    /// Ends it. What this thread is in the middle of ends with it.
    #[must_use]
    pub fn finish(self) -> Lines {
        let shared = Arc::clone(&self.shared);
        drop(self);
        thread::forget();
        shared.lines()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        NUMBER.store(NONE, Release);
        RUNNING.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The number of the recording that runs.
pub(super) fn number() -> Option<u32> {
    Some(NUMBER.load(Acquire)).filter(|number| *number != NONE)
}

/// The recording that runs.
pub(super) fn running() -> Option<Arc<Shared>> {
    RUNNING.read().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self) -> Lines {
        Lines::new(&self.known().sources, &self.rows)
    }

    /// The first line of a function.
    pub(super) fn first(&self, function: &'static Function) -> LineId {
        let mut known = self.known();
        let Known { sources, firsts, .. } = &mut *known;
        *firsts.entry(ptr::from_ref(function).addr()).or_insert_with(|| sources.add(source(function)))
    }

    /// A function was called: its table, if that is due.
    pub(super) fn called(&self, first: LineId, function: &'static Function) -> Option<Lines> {
        let every = function.every?;
        let mut known = self.known();
        let calls = known.calls.entry(first).or_default();
        *calls += 1;
        let is_due = calls.is_multiple_of(every.get());
        drop(known);
        let lines = is_due.then(|| self.lines().function(function.name))?;
        Some(if function.columns.is_empty() {
            lines
        } else {
            lines.columns(function.columns.iter().copied())
        })
    }
}

fn source(function: &Function) -> Source {
    let named = Source::new(&format!("{}::{}", function.module, function.name), function.file);
    function.lines.iter().fold(named, |source, line| source.line(line.number, line.text))
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("sources", &self.sources).finish_non_exhaustive()
    }
}
