//! Seeing what happens: events, observers, reports, and what filled the memory.
//!
//! A user should never have to wonder why a job is slow. Each call can have an observer, [`everywhere`] sees all of
//! them, `TOMA_LOG=1` prints every failure, and [`report::last`] tells what the last call on this
//! thread went through. Without any of them no clock is read and no event is built. A library that counts what is
//! allocated says in them what filled the memory, as a [`witness`].

mod answer;
mod global;
mod log;
#[cfg(feature = "progress")]
mod progress;
mod reason;
pub(crate) mod report;
mod telling;
#[cfg(feature = "tracing")]
mod tracing;
mod watch;
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

/// Something that happened in one call.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// A number that tells concurrent calls apart.
    pub call: u64,
    /// The name of the call: its `name` option, the function's path, or the line of an inline form.
    pub name: &'a str,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What happened.
///
/// Sizes and positions are in items, but sizes in cost units where the call has
/// [costs](crate::execute::With::by_cost). Positions count from the start of what the call works on; a
/// batch runs from 0 to its batch size.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub enum EventKind<'a> {
    /// A call begins with the step `start`; `remembered` is what the size cache knew (a cache hit).
    Started {
        /// The size this call may start with at most.
        initial: usize,
        /// The size it starts with.
        start: usize,
        /// How many items there are to do; `None` for a batch.
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
        /// The size of the attempt: so many items, or what they cost.
        size: usize,
        /// What kind of failure.
        class: Class,
        /// Bytes the failed allocation asked for, when known.
        requested_bytes: Option<u64>,
        /// Free bytes of the memory source once the attempt had failed, when known.
        free_bytes: Option<u64>,
        /// The error's own words.
        message: &'a str,
        /// What filled the memory, in one or several lines, where a [witness] listens that knows it.
        filled: Option<&'a str>,
        /// How long the failed attempt took.
        elapsed: Option<Duration>,
    },
    /// How the call goes on after the failure before it. This is final: the values of the attempt are dropped, and hooks
    /// and leaner plans were asked by then. With ranks, all have voted. Giving up is answered at once.
    Answered {
        /// The size that failed.
        size: usize,
        /// What happens next.
        answer: Answer,
    },
    /// The call waits for its turn on the device.
    Waits {
        /// The size of the attempt that waits.
        size: usize,
        /// Other attempts that run there.
        others: usize,
    },
    /// It has waited, and its attempt begins.
    Waited {
        /// How long.
        elapsed: Duration,
        /// Whether it has the device to itself.
        exclusive: bool,
    },
    /// The next piece has another step, nearly always a larger one. The policy tries it, or the step from before
    /// a search is back: the search has found a single item that does not fit.
    Probe {
        /// The step so far.
        from: usize,
        /// The step tried next.
        to: usize,
    },
    /// Even the smallest size needs more than there is, as far as is known; told once per call, as
    /// soon as it shows. Attempts go on, because it may be wrong.
    DoesNotFit {
        /// The smallest size.
        size: usize,
        /// Bytes it needs, at least.
        needs_bytes: u64,
        /// Bytes it could have.
        free_bytes: u64,
    },
    /// The size cache remembers `size` for the next call.
    Settled {
        /// The settled size.
        size: usize,
        /// The functions above the call, where it is remembered for calls from there alone.
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

/// Something that wants to know what happens: a log, a progress bar, a test.
///
/// An observer that panics is heard no more in that call, and the work goes on. Loops that an
/// observer runs itself are shown only to observers of their own.
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
