//! The rungs that a call takes, and their names.
//!
//! # Why
//!
//! A body calls [`falls_back`] instead of taking a parameter. So bodies keep their parameters, and the functions
//! that they call can ask, too.

use std::fmt;
use std::time::Duration;

use super::Cancel;
use crate::nesting::Nesting;

/// The rungs of the [ladder](super#the-ladder) that a call takes; the value of the option `ladder`.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::time::Duration;
/// use toma::{NoCache, device::Ladder, execute};
///
/// let ladder = Ladder::default().release_and_retry(true).wait(Duration::from_secs(1));
/// let size = execute::with::<NoCache>().ladder(ladder).batch(8, |size| size);
/// assert_eq!(size, 8);
/// ```
#[must_use = "does nothing until it is given to a call"]
#[derive(Clone, Copy, Debug)]
pub struct Ladder<'a> {
    pub(crate) release: bool,
    pub(crate) wait: Option<Duration>,
    pub(crate) hooks: bool,
    pub(crate) fallback: bool,
    pub(crate) cancel: Option<&'a Cancel>,
}

impl Default for Ladder<'_> {
    /// Waits for at most 10 seconds, asks hooks, and does not fall back.
    fn default() -> Self {
        Self {
            release: false,
            wait: Some(Duration::from_secs(10)),
            hooks: true,
            fallback: false,
            cancel: None,
        }
    }
}

impl<'a> Ladder<'a> {
    /// A ladder without any rung.
    pub(crate) const fn none() -> Self {
        Self { release: false, wait: None, hooks: false, fallback: false, cancel: None }
    }

    /// Tries the same size again after the device's cached memory is released, for a memory source whose allocator
    /// does not do that before it fails.
    pub fn release_and_retry(mut self, on: bool) -> Self {
        self.release = on;
        self
    }

    /// Waits for other users of the device for at most `at_most`, each time.
    ///
    /// A wait that lasts that long is in vain. For ten times that long no further wait of the process begins on the
    /// device. So while the attempt in the way goes on, waits for it take about a tenth of a thread's time at most.
    ///
    /// Waits begin again sooner if all attempts that ran then have ended, however short they were. So a thread that
    /// a body starts and joins may wait its whole bound in each attempt around it, because it waits for that
    /// attempt. See [what to expect](super#what-to-expect).
    ///
    /// The bound passes in real time, even if a test has stopped the engine's clock.
    pub fn wait(mut self, at_most: Duration) -> Self {
        self.wait = Some(at_most);
        self
    }

    /// Never waits for other users of the device, and begins even next to an exclusive attempt.
    pub fn without_waiting(mut self) -> Self {
        self.wait = None;
        self
    }

    /// Switches the questions to [hooks](super::on_release) on or off.
    pub fn hooks(mut self, on: bool) -> Self {
        self.hooks = on;
        self
    }

    /// Continues in fallback when no smaller size is left, see [`falls_back`]. A nested loop [gives
    /// way](super#loops-inside-attempts) first.
    pub fn fallback(mut self, on: bool) -> Self {
        self.fallback = on;
        self
    }

    /// Ends all waits once `cancel` is cancelled, and starts no retry after that: a failure then reaches the
    /// caller.
    ///
    /// A wait that ends this way is followed by its attempt, because the failure before the wait is gone by then. A
    /// body that must not run any more has to check [`Cancel::is_cancelled`] itself.
    pub fn cancelled_by(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }
}

/// True if the body runs in [fallback](Ladder::fallback): no smaller size was left, and the body should use other
/// memory than the device's, such as the CPU's.
///
/// Fallback lasts until the end of the call, and includes loops inside the body. Sizes in fallback are not
/// remembered, and they begin with `initial`. Where sizes are [costs](crate::execute::With::by_cost), a single item
/// that does not fit there either is left out. Outside of attempts, and in threads that the body starts, the
/// function returns false: pass such threads the answer.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::device::{Ladder, falls_back};
/// use toma::{GlobalCache, classify::OutOfMemory, execute};
///
/// let form = execute::with::<GlobalCache>().ladder(Ladder::default().fallback(true));
/// let sizes = form.map(0..8, 4, |start, end| {
///     if falls_back() { Ok(end - start) } else { Err(OutOfMemory::new(None)) }
/// })?;
/// assert_eq!(sizes, [4, 4]);
/// assert!(!falls_back());
/// # Ok::<(), OutOfMemory>(())
/// ```
#[must_use]
pub fn falls_back() -> bool {
    Nesting::now().marks.falls_back
}

/// Reason why the same size is tried once more.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::device::Rung;
/// use toma::observe::{Answer, Event, EventKind};
/// use toma::{NoCache, execute};
///
/// let observer = |event: &Event<'_>| {
///     if let EventKind::Answered { size, answer: Answer::Again(Rung::Exclusive) } = event.kind {
///         println!("{}: {size} once more, while the others wait", event.name);
///     }
/// };
/// execute::with::<NoCache>().observer(&observer).batch(8, |_| ());
/// assert_eq!(Rung::Exclusive.as_str(), "exclusive");
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The failure was transient.
    Transient,
    /// Cached memory is released.
    Release,
    /// There was contention, so the attempt will be exclusive.
    Exclusive,
    /// The body has [offered](crate::leaner::offer) a leaner plan.
    Leaner,
    /// The release hooks are asked.
    Hooks,
}

impl Rung {
    /// Returns the name of the rung.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Release => "release",
            Self::Exclusive => "exclusive",
            Self::Leaner => "leaner",
            Self::Hooks => "hooks",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
