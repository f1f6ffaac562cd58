//! Counts the panics that are printed.

use std::cell::{Cell, RefCell};
use std::panic;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static TEXTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Sets a hook that counts printed panics, and then the library's hook in front of it. A program calls this first,
/// because a hook set after the first call of the library would stand in front of it: tests run side by side.
pub(crate) fn listen() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if COUNTING.get() {
            TEXTS.with_borrow_mut(|texts| texts.push(info.to_string()));
        } else {
            previous(info);
        }
    }));
    toma::execute::with::<toma::NoCache>().batch(1, |_| ());
}

/// Returns the result of `run`, and how many panics of this thread would have been printed meanwhile.
pub(crate) fn printed<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let (result, texts) = texts(run);
    (result, texts.len())
}

/// Returns the result of `run`, and the messages of the panics that would have been printed meanwhile.
pub(crate) fn texts<R>(run: impl FnOnce() -> R) -> (R, Vec<String>) {
    let (is_inner, before) = (COUNTING.replace(true), TEXTS.with_borrow(Vec::len));
    let result = run();
    COUNTING.set(is_inner);
    (result, if is_inner { TEXTS.with_borrow(|texts| texts[before..].to_vec()) } else { TEXTS.take() })
}
