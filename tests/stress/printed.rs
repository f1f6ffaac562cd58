//! Records which faults were printed, in a panic hook behind the hook of the library.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic;
use std::sync::{LazyLock, Mutex, Once};

use toma::classify::OutOfMemory;

use crate::ending::text_of;
use crate::fault::Fault;
use crate::world::lock;

/// How often each thrown fault has been printed.
static FAULTS: LazyLock<Mutex<HashMap<u64, usize>>> = LazyLock::new(Mutex::default);

thread_local! {
    static INJECTED: Cell<usize> = const { Cell::new(0) };
}

/// Counts the panics that reach the hook, and prints only panics that no test raised on purpose.
///
/// Every test that uses it calls this first, because the library puts a hook of its own in front when it is first used.
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

/// Returns true if the text is that of a panic of [`toma::testing::inject`].
pub(crate) fn is_injected(text: &str) -> bool {
    text.contains("by a test instead of") || text.contains("by a test after")
}

/// Returns how often these faults have been printed together, and forgets them.
pub(crate) fn take(faults: &[u64]) -> usize {
    let mut printed = lock(&FAULTS);
    faults.iter().filter_map(|fault| printed.remove(fault)).sum()
}

/// Returns true if the fault has been printed.
pub(crate) fn has(fault: u64) -> bool {
    lock(&FAULTS).contains_key(&fault)
}

/// Returns how many injected panics of this thread have been printed since the last call.
pub(crate) fn take_injected() -> usize {
    INJECTED.replace(0)
}
