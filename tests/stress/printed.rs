//! Which faults were printed: the panic hook behind the library's own.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic;
use std::sync::{LazyLock, Mutex, Once};

use toma::classify::OutOfMemory;

use crate::ending::text_of;
use crate::fault::Fault;
use crate::world::lock;

/// How often each fault that was thrown has been printed.
static FAULTS: LazyLock<Mutex<HashMap<u64, usize>>> = LazyLock::new(Mutex::default);

thread_local! {
    static INJECTED: Cell<usize> = const { Cell::new(0) };
}

/// Counts what reaches the hook; only what no thread has made on purpose is shown.
///
/// To be called before the library is first used, which puts a hook of its own in front; so by every
/// test that uses it.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(put_in_front);
}

fn put_in_front() {
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let text = text_of(info.payload()).unwrap_or_default();
        if let Some(number) = Fault::number_in(text) {
            *lock(&FAULTS).entry(number).or_default() += 1;
        } else if is_injected(text) || info.payload().is::<OutOfMemory>() {
            INJECTED.set(INJECTED.get() + 1);
        } else {
            previous(info);
        }
    }));
}

/// Whether a panic says that [`toma::testing::inject`] made it.
pub(crate) fn is_injected(text: &str) -> bool {
    text.contains("by a test instead of") || text.contains("by a test after")
}

/// How often these faults have been printed together; forgets them.
pub(crate) fn take(faults: &[u64]) -> usize {
    let mut printed = lock(&FAULTS);
    faults.iter().filter_map(|fault| printed.remove(fault)).sum()
}

/// Whether it has been printed.
pub(crate) fn has(fault: u64) -> bool {
    lock(&FAULTS).contains_key(&fault)
}

/// How many injected panics of this thread have been printed since it was last asked.
pub(crate) fn take_injected() -> usize {
    INJECTED.replace(0)
}
