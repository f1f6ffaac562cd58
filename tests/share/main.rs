//! What users do about a device that others use, too: reserve bytes of it, and cancel calls.

#![cfg(feature = "testing")]

mod reservations;
mod waiting;

use std::thread;
use std::time::{Duration, Instant};

/// Longer than any test takes: who waits so long has been forgotten.
const AGES: Duration = Duration::from_secs(60);

/// Waits until it is so; whether it ever will be is what is tested.
fn until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < AGES, "it never came");
        thread::sleep(Duration::from_millis(1));
    }
}
