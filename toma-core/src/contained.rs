//! Runs user code, whose panics must not stop the work.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code` and returns its value; `None` if it panicked.
pub fn contained<R>(code: impl FnOnce() -> R) -> Option<R> {
    // Dropping the payload of a panic may panic, too.
    catch_unwind(AssertUnwindSafe(code)).map_err(mem::forget).ok()
}
