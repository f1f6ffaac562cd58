//! Waking those who wait.

use std::task::Waker;

use crate::contained::contained;

/// Wakes all of them, to be called without a lock: a waker is anybody's code. For the same reason one that
/// panics is passed over, because others wait behind it.
pub(super) fn wake(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        contained(|| waker.wake());
    }
}
