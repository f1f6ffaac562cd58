//! Readings that may be a little old, for paths that must be fast.
//!
//! Each thread remembers its own readings, because a warm call writes no shared memory: a cache line shared by
//! threads would be written by one and fetched by all others.

use std::cell::RefCell;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::{MemorySource, Reading};

/// This thread's last reading of one memory; `None` if the memory could not be read.
#[derive(Debug)]
pub(super) struct LastReading {
    name: String,
    at: Duration,
    pub(super) reading: Option<Reading>,
}

/// The last readings of a thread, one for each memory.
#[derive(Debug)]
pub(super) struct LastReadings(Vec<LastReading>);

/// More memories than one thread works with, yet few enough for a linear search.
pub(super) const MEMORIES: usize = 8;

thread_local! {
    static READINGS: RefCell<LastReadings> = const { RefCell::new(LastReadings::new()) };
}

/// Returns a reading of `source` that is at most its [`staleness`](MemorySource::staleness) old; `None` if it
/// cannot be read. Failures are remembered, too.
pub(crate) fn recent(source: &dyn MemorySource) -> Option<Reading> {
    let staleness = source.staleness();
    if staleness.is_zero() {
        return source.read().ok();
    }
    let (name, now) = (source.name(), now());
    // At the end of a thread its readings may be gone; then every reading is new.
    let known = READINGS
        .try_with(|readings| readings.borrow().fresh(name, now, staleness).map(|known| known.reading));
    if let Ok(Some(reading)) = known {
        return reading;
    }
    // Nothing is borrowed here, because the source may itself run loops.
    let reading = source.read().ok();
    let _ = READINGS.try_with(|readings| readings.borrow_mut().keep(name, now, reading));
    reading
}

impl LastReadings {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the reading of the memory `name`, if it was made less than `staleness` before `now`.
    pub(super) fn fresh(&self, name: &str, now: Duration, staleness: Duration) -> Option<&LastReading> {
        let fresh = |known: &&LastReading| known.name == name && now.saturating_sub(known.at) < staleness;
        self.0.iter().find(fresh)
    }

    /// Stores a reading, in place of the oldest if there are too many.
    pub(super) fn keep(&mut self, name: &str, at: Duration, reading: Option<Reading>) {
        if let Some(known) = self.0.iter_mut().find(|known| known.name == name) {
            (known.at, known.reading) = (at, reading);
            return;
        }
        if self.0.len() >= MEMORIES {
            let oldest = self.0.iter().enumerate().min_by_key(|(_, known)| known.at);
            oldest.map(|(index, _)| index).map(|index| self.0.swap_remove(index));
        }
        self.0.push(LastReading { name: name.to_owned(), at, reading });
    }
}

/// Returns the time since the first call of this function.
fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}
