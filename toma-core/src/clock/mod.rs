//! The engine's clocks. A test may stop them on its thread.

#[cfg(feature = "testing")]
mod stopped;

use std::time::{Instant, SystemTime};

#[cfg(feature = "testing")]
pub use stopped::StoppedClock;

/// Now, for durations.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(feature = "testing")]
    if let Some(now) = stopped::instant() {
        return now;
    }
    Instant::now()
}

/// Now, for what is kept beyond the process.
#[inline]
pub(crate) fn wall() -> SystemTime {
    #[cfg(feature = "testing")]
    if let Some(now) = stopped::wall() {
        return now;
    }
    SystemTime::now()
}
