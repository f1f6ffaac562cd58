//! Which rungs a call takes, and what they are called.
//!
//! # Why
//!
//! A body asks [`falls_back`] instead of taking a parameter. So bodies keep their parameters, and what they
//! call can ask, too.

use std::fmt;
use std::time::Duration;

use super::Cancel;
use crate::nesting::Nesting;

/// Which rungs of the [ladder](super#the-ladder) a call takes; the option `ladder`.
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
    /// No rung at all.
    pub(crate) const fn none() -> Self {
        Self { release: false, wait: None, hooks: false, fallback: false, cancel: None }
    }

    /// Tries the same size again once the device's cached memory is released; for a memory source
    /// whose allocator has not tried that before it failed.
    pub fn release_and_retry(mut self, on: bool) -> Self {
        self.release = on;
        self
    }

    /// Waits at most so long for other users of the device, each time.
    ///
    /// A wait that lasts so long is in vain. For ten times that long no further wait of the process begins on
    /// the device. So while an attempt that was in the way goes on, waits for it take about a tenth of a
    /// thread's time at most.
    ///
    /// Waits begin again sooner if all attempts that ran then have ended, however short they were. So a
    /// thread that a body starts and joins may wait its whole bound in each attempt around it, because it
    /// waits for that attempt. See [what to expect](super#what-to-expect).
    ///
    /// The bound passes by the system's clock, even where a test holds the engine's.
    pub fn wait(mut self, at_most: Duration) -> Self {
        self.wait = Some(at_most);
        self
    }

    /// Never waits for other users of the device, and begins beside an exclusive attempt, too.
    pub fn without_waiting(mut self) -> Self {
        self.wait = None;
        self
    }

    /// Whether [hooks](super::on_release) are asked.
    pub fn hooks(mut self, on: bool) -> Self {
        self.hooks = on;
        self
    }

    /// Goes on in fallback when nothing smaller is left, see [`falls_back`]. A nested loop
    /// [gives way](super#loops-inside-attempts) first.
    pub fn fallback(mut self, on: bool) -> Self {
        self.fallback = on;
        self
    }

    /// Ends all waits once `cancel` is cancelled, and starts no retry after that: a failure then goes
    /// through.
    ///
    /// A wait that ends so is followed by the attempt it was for, because the failure before it is gone.
    /// A body that must not run any more asks [`Cancel::is_cancelled`] itself.
    pub fn cancelled_by(mut self, cancel: &'a Cancel) -> Self {
        self.cancel = Some(cancel);
        self
    }
}

/// Whether the body runs in [fallback](Ladder::fallback): nothing smaller was left, and it should use
/// memory beside the device's now, such as the CPU's.
///
/// From then on that is so to the end of the call, and in loops inside the body, too. Nothing is remembered of sizes in
/// fallback, and they begin with `initial`. Where sizes are [costs](crate::execute::With::by_cost), a single item that
/// does not fit there either is left out. Outside of attempts it is never so, and neither is it in threads that the
/// body starts: hand them the answer.
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

/// Why the same size is tried once more.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The failure was transient.
    Transient,
    /// Cached memory is released.
    Release,
    /// There was contention: the attempt will be exclusive.
    Exclusive,
    /// The body has [offered](crate::leaner::offer) a leaner plan.
    Leaner,
    /// The release hooks are asked.
    Hooks,
}

impl Rung {
    /// Its name.
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
