//! The engine's clocks. A test may stop them on its thread.

#[cfg(feature = "testing")]
mod stopped;

use std::time::{Instant, SystemTime};

#[cfg(feature = "testing")]
pub use stopped::StoppedClock;

/// Returns the current time, for durations.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(feature = "testing")]
    if let Some(now) = stopped::instant() {
        return now;
    }
    Instant::now()
}

/// Returns the current time, for data that outlives the process.
#[inline]
pub(crate) fn wall() -> SystemTime {
    #[cfg(feature = "testing")]
    if let Some(now) = stopped::wall() {
        return now;
    }
    SystemTime::now()
}
