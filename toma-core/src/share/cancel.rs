//! Ending waits from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Ends calls that wait for a device, from any thread; clones are the same handle.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    cancelled: Arc<AtomicBool>,
}

impl Cancel {
    /// A handle that nobody has cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends all waits that have this handle, now and later; for good.
    pub fn cancel(&self) {
        self.cancelled.store(true, SeqCst);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(SeqCst)
    }
}
