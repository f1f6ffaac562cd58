//! Whether an observer or the witness is being told on this thread.

use std::cell::Cell;

thread_local! {
    /// Loops that one of them runs itself are shown only to observers of their own: told of them, an observer of
    /// everything would never end.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of theirs, which does not panic.
pub(super) fn telling<R>(code: impl FnOnce() -> R) -> R {
    let before = TELLING.replace(true);
    let result = code();
    TELLING.set(before);
    result
}

#[inline]
pub(super) fn is_telling() -> bool {
    TELLING.get()
}
