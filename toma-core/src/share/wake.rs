//! Waking those who wait.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Wakes all of them, to be called without a lock: a waker is anybody's code. For the same reason one that
/// panics is passed over, because others wait behind it.
pub(super) fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            // Dropping what somebody panicked with may panic, too.
            mem::forget(payload);
        }
    }
}
