//! Counting what panics print.

use std::cell::{Cell, RefCell};
use std::panic;
use std::sync::Once;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static TEXTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A hook that counts stands behind the library's. Every test begins here, because a hook set after the library's
/// first call would stand before it.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if COUNTING.get() {
                TEXTS.with_borrow_mut(|texts| texts.push(info.to_string()));
            } else {
                previous(info);
            }
        }));
        // Its hook goes in front of this one, now and not while another thread panics.
        toma::execute::with::<toma::NoCache>().batch(1, |_| ());
    });
}

/// What `run` returns, and how many panics of this thread would have been printed meanwhile.
pub(crate) fn printed<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let (result, texts) = texts(run);
    (result, texts.len())
}

/// The same with what they say.
pub(crate) fn texts<R>(run: impl FnOnce() -> R) -> (R, Vec<String>) {
    let (is_inner, before) = (COUNTING.replace(true), TEXTS.with_borrow(Vec::len));
    let result = run();
    COUNTING.set(is_inner);
    (result, if is_inner { TEXTS.with_borrow(|texts| texts[before..].to_vec()) } else { TEXTS.take() })
}
