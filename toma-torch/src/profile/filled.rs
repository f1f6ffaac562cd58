//! What filled the memory, told where an attempt of a loop runs out of it.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use toma_trace::counting;

use super::named::{self, ByAddress};
use super::running;

static PRINTS: AtomicBool = AtomicBool::new(false);

/// Prints what filled the memory at each failure from now on, or no more.
pub(super) fn print_each(on: bool) {
    PRINTS.store(on, Relaxed);
}

/// What filled the memory at the last failure of this thread, while a recording runs.
pub(super) fn filled() -> Option<String> {
    let now = variables();
    let filled = counting::filled(|block| named::of_block(&now, block))?.to_string();
    if PRINTS.load(Relaxed) {
        say(&format!("toma: {filled}"));
    }
    Some(filled)
}

/// The same at a failure that no loop was told of: the program has not outlived it, or makes do without.
pub(super) fn untold() -> Option<String> {
    let now = variables();
    Some(counting::untold(|block| named::of_block(&now, block))?.to_string())
}

fn variables() -> ByAddress {
    running::named().map_or_else(ByAddress::new, |named| named.now())
}

/// A standard error that is closed must not end the program.
pub(super) fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
