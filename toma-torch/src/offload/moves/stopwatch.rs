//! Measures the duration of an operator without the time for moving its arguments.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Time spent on moves since `BEGAN`.
    static MOVED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Stopwatch of the current thread.
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

    /// Runs `moving` and leaves its time out of the measurement.
    pub(crate) fn pauses<T>(moving: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let moved = moving();
        MOVED.set(MOVED.get() + began.elapsed());
        moved
    }
}
