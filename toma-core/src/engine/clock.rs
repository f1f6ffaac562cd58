//! The engine's clocks, which a test may hold in its hand.

use std::time::{Instant, SystemTime};

#[cfg(feature = "testing")]
use crate::testing::clock as held;

/// Now, for durations.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(feature = "testing")]
    if let Some(now) = held::instant() {
        return now;
    }
    Instant::now()
}

/// Now, for what is kept beyond the process.
#[inline]
pub(crate) fn wall() -> SystemTime {
    #[cfg(feature = "testing")]
    if let Some(now) = held::wall() {
        return now;
    }
    SystemTime::now()
}
