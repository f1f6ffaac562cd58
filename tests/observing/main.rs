//! What can be seen of a call: every event in order, its report, and its `tracing` events.

#![expect(
    clippy::needless_raw_string_hashes,
    reason = "as expect-test writes them when it is told to update"
)]

mod durations;
mod everywhere;
#[path = "../common/executor.rs"]
mod executor;
#[cfg(feature = "testing")]
mod explained;
mod gave_up;
mod last;
mod panics;
mod record;
mod reports;
mod shown;
mod stream;
#[cfg(feature = "tracing")]
mod subscriber;
#[cfg(feature = "tracing")]
mod traced;
mod world;

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Tests that observe every call of the process write, tests of calls without an observer read.
static PROCESS: RwLock<()> = RwLock::new(());

/// No observer sees every call of the process until this is dropped.
fn unobserved() -> RwLockReadGuard<'static, ()> {
    PROCESS.read().unwrap_or_else(PoisonError::into_inner)
}
