//! How long an operator takes with everything on the device.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// What has passed since then with moving.
    static MOVED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// That of this thread.
pub(crate) struct Stopwatch;

impl Stopwatch {
    pub(crate) fn start() {
        MOVED.set(Duration::ZERO);
        BEGAN.set(Some(Instant::now()));
    }

    pub(crate) fn read() -> Duration {
        let passed = BEGAN.get().map_or(Duration::ZERO, |began| began.elapsed());
        passed.saturating_sub(MOVED.get())
    }

    /// Leaves out what `moving` takes.
    pub(crate) fn pauses<T>(moving: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let moved = moving();
        MOVED.set(MOVED.get() + began.elapsed());
        moved
    }
}
