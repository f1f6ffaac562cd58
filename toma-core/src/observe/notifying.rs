//! Marks a thread while an observer or the witness is notified on it.

use std::cell::Cell;

thread_local! {
    /// True while an observer or the witness runs on this thread. Loops that it runs itself then notify only their own
    /// `observer` option, because an observer of every call would otherwise observe its own loops without end.
    static NOTIFYING: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of an observer or the witness, which does not panic.
pub(super) fn notifying<R>(code: impl FnOnce() -> R) -> R {
    let before = NOTIFYING.replace(true);
    let result = code();
    NOTIFYING.set(before);
    result
}

#[inline]
pub(super) fn is_notifying() -> bool {
    NOTIFYING.get()
}
