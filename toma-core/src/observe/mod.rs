//! Events of calls, observers, reports, and the witness that reports the allocations that filled the memory.
//!
//! A user should never have to wonder why a job is slow. Each call can have an observer, [`everywhere`] observes all
//! calls, `TOMA_LOG=1` prints every failure, and [`report::last`] returns the report of the last call on this thread.
//! Without observers no clock is read and no event is built. A library that counts allocations can add to all of these
//! the allocations that filled the memory, as a [`witness`].

mod answer;
mod global;
mod log;
mod notifying;
#[cfg(feature = "progress")]
mod progress;
mod reason;
pub(crate) mod report;
#[cfg(feature = "tracing")]
mod tracing;
mod watch;
#[doc(hidden)]
pub mod witness;

pub use crate::call_site::Name;
pub use answer::Answer;
pub use global::{Everywhere, everywhere};
#[cfg(feature = "progress")]
pub use progress::ProgressBar;
pub use reason::Reason;
pub(crate) use report::Shortfall;
pub(crate) use watch::Watch;

use std::fmt;
use std::time::Duration;

use crate::classify::Class;
use crate::stack::Callers;

/// An event of one call.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::observe::Event;
/// use toma::{NoCache, execute};
///
/// let observer = |event: &Event<'_>| println!("{} {}: {:?}", event.call, event.name, event.kind);
/// execute::with::<NoCache>().name("embed").observer(&observer).batch(8, |_| ());
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Number that distinguishes concurrent calls.
    pub call: u64,
    /// The name of the call: its `name` option, the function's path, or the line of an inline form.
    pub name: &'a str,
    /// The kind of the event, with its figures.
    pub kind: EventKind<'a>,
}

/// The kind of an event, with its figures.
///
/// Sizes and positions are in items; if the call has [costs](crate::execute::With::by_cost), sizes are in cost units.
/// Positions count from the start of the call's range; a batch runs from 0 to its batch size.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use toma::observe::{Event, EventKind};
/// use toma::{NoCache, classify::OutOfMemory, execute};
///
/// let failed = AtomicUsize::new(0);
/// let observer = |event: &Event<'_>| {
///     if let EventKind::Failed { size, message, .. } = event.kind {
///         println!("{size} items: {message}");
///         failed.fetch_add(1, Relaxed);
///     }
/// };
/// execute::with::<NoCache>().observer(&observer).batch(8, |size| {
///     if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// assert_eq!(failed.into_inner(), 2);
/// # Ok::<(), OutOfMemory>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a> {
    /// A call begins with the step `start`; `remembered` is the entry of the size cache (a cache hit).
    Started {
        /// The largest size this call may start with.
        initial: usize,
        /// The size it starts with.
        start: usize,
        /// Number of items to do; `None` for a batch.
        length: Option<usize>,
        /// The settled size found in the size cache; `None` is a cache miss.
        remembered: Option<usize>,
    },
    /// An attempt at the items from `start` to `end` begins.
    Attempt {
        /// First item.
        start: usize,
        /// One past the last item.
        end: usize,
    },
    /// An attempt succeeded.
    Succeeded {
        /// First item.
        start: usize,
        /// One past the last item.
        end: usize,
        /// How long the attempt took.
        elapsed: Duration,
    },
    /// An attempt failed.
    Failed {
        /// First item.
        start: usize,
        /// One past the last item.
        end: usize,
        /// The size of the attempt: the number of its items, or their cost.
        size: usize,
        /// The class of the failure.
        class: Class,
        /// Bytes requested by the failed allocation, when known.
        requested_bytes: Option<u64>,
        /// Free bytes of the memory source after the failed attempt, when known.
        free_bytes: Option<u64>,
        /// The message of the error.
        message: &'a str,
        /// The allocations that filled the memory, in one or several lines, if a [witness] listens and knows them.
        filled: Option<&'a str>,
        /// How long the failed attempt took.
        elapsed: Option<Duration>,
    },
    /// The engine's answer to the failure before it. The answer is final: the values of the attempt are dropped,
    /// release hooks and leaner plans have been tried, and with ranks all have voted. Giving up is reported at once.
    Answered {
        /// The size that failed.
        size: usize,
        /// The answer.
        answer: Answer,
    },
    /// The call waits for its turn on the device.
    Waits {
        /// The size of the attempt that waits.
        size: usize,
        /// Number of other attempts that run on the device.
        others: usize,
    },
    /// The call has waited, and its attempt begins.
    Waited {
        /// Duration of the wait.
        elapsed: Duration,
        /// True if the attempt has the device to itself.
        exclusive: bool,
    },
    /// The next piece has another step, nearly always a larger one. Either the policy tries it, or the engine returns
    /// to the step from before a search, because the search has found the single item that does not fit.
    Probe {
        /// The step so far.
        from: usize,
        /// The step tried next.
        to: usize,
    },
    /// Even the smallest size needs more memory than is available, by the estimates so far. Reported once per call, as
    /// soon as it is known. Attempts go on, because the estimate may be wrong.
    DoesNotFit {
        /// The smallest size.
        size: usize,
        /// Bytes it needs, at least.
        needs_bytes: u64,
        /// Bytes available to it.
        free_bytes: u64,
    },
    /// The size cache remembers `size` for the next call.
    Settled {
        /// The settled size.
        size: usize,
        /// The callers, if the size is remembered only for calls from there; otherwise empty.
        callers: &'a Callers,
    },
    /// The call is over.
    Finished {
        /// Attempts made, failed ones included.
        attempts: usize,
        /// Attempts that ran out of memory.
        out_of_memory: usize,
    },
}

/// Receives the events of calls: a log, a progress bar, a test.
///
/// An observer that panics receives no more events of that call, and the work goes on. Loops that an observer runs
/// itself notify only their own `observer` option.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::Mutex;
/// use toma::observe::{Event, EventKind, Observer};
/// use toma::{NoCache, classify::OutOfMemory, execute};
///
/// /// Sizes that failed.
/// #[derive(Default)]
/// struct Failed(Mutex<Vec<usize>>);
///
/// impl Observer for Failed {
///     fn observe(&self, event: &Event<'_>) {
///         if let EventKind::Failed { size, .. } = event.kind {
///             self.0.lock().unwrap().push(size);
///         }
///     }
/// }
///
/// let failed = Failed::default();
/// execute::with::<NoCache>().observer(&failed).batch(8, |size| {
///     if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// assert_eq!(*failed.0.lock().unwrap(), [8, 4]);
/// # Ok::<(), OutOfMemory>(())
/// ```
pub trait Observer: Sync {
    /// Called for each event, in order, on the thread that works.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Sync> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

impl fmt::Debug for dyn Observer + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
