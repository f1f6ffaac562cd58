//! A clock that moves only when a test advances it.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime};

thread_local! {
    static HELD: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Start of stopped time. Both clocks are read once, so that their times fit together.
static BEGIN: LazyLock<(Instant, SystemTime)> = LazyLock::new(|| (Instant::now(), SystemTime::now()));

/// Stops the engine's clock on this thread; it then moves only by [`advance`](Self::advance).
///
/// So a test of deadlines, durations or policies that measure time behaves the same on every machine, and hours
/// pass at once. The clock runs again when this is dropped.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::time::Duration;
/// use toma::{classify::OutOfMemory, execute, testing::StoppedClock};
///
/// let clock = StoppedClock::new();
/// let work = execute::with::<toma::NoCache>().deadline(Duration::from_secs(60));
/// let result = work.range(0..100, 100, |_start, _end| {
///     clock.advance(Duration::from_secs(40));
///     Err(OutOfMemory::new(None))
/// });
/// assert!(result.is_err());
/// assert_eq!(toma::report::last().unwrap().attempts, 2);
/// ```
#[must_use = "the clock runs again when this is dropped"]
#[derive(Debug)]
pub struct StoppedClock {
    before: Option<Duration>,
    /// Keeps the clock on its thread.
    not_send: PhantomData<*const ()>,
}

impl StoppedClock {
    /// Stops the clock of this thread.
    pub fn new() -> Self {
        let before = HELD.get();
        HELD.set(Some(before.unwrap_or_default()));
        Self { before, not_send: PhantomData }
    }

    /// Lets `time` pass.
    pub fn advance(&self, time: Duration) {
        HELD.set(HELD.get().map(|now| now + time));
    }

    /// Returns the time that has passed since the clock was stopped.
    pub fn elapsed(&self) -> Duration {
        HELD.get().unwrap_or_default().saturating_sub(self.before.unwrap_or_default())
    }
}

impl Default for StoppedClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for StoppedClock {
    fn drop(&mut self) {
        HELD.set(self.before);
    }
}

pub(super) fn instant() -> Option<Instant> {
    HELD.get().map(|passed| BEGIN.0 + passed)
}

pub(super) fn wall() -> Option<SystemTime> {
    HELD.get().map(|passed| BEGIN.1 + passed)
}
