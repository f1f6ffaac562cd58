//! Counting what panics print.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use toma::classify::add_error;

use crate::stage::Fault;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static PRINTED: Cell<usize> = const { Cell::new(0) };
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Makes the process ready: a hook that counts stands behind the library's, and the tests' error
/// type is known. Every test begins here, because a hook set after the library's first call would
/// stand before it.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if COUNTING.get() {
                PRINTED.set(PRINTED.get() + 1);
                LAST.replace(info.to_string());
            } else {
                previous(info);
            }
        }));
        // Its hook goes in front of this one, now and not while another thread panics.
        toma::execute::with::<toma::NoCache>().batch(1, |_| ());
        add_error::<Fault>(|fault| Some(fault.class));
    });
}

/// What `run` returns, and how many panics of this thread would have been printed meanwhile.
pub(crate) fn printed<R>(run: impl FnOnce() -> R) -> (R, usize) {
    let (counting, before) = (COUNTING.replace(true), PRINTED.get());
    let result = run();
    COUNTING.set(counting);
    (result, PRINTED.get() - before)
}

/// What a property that does not hold says, kept to itself while smaller cases are looked for.
pub(crate) fn complaint(property: impl FnOnce()) -> Result<(), String> {
    let (result, _) = printed(|| catch_unwind(AssertUnwindSafe(property)));
    result.map_err(|_| LAST.take())
}
