//! Holders of the memory at the moment when an attempt of a loop runs out of it.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use toma_trace::counting;

use super::named::{self, ByAddress};
use super::running;

static PRINTS: AtomicBool = AtomicBool::new(false);

/// Switches printing of the holders at each failure on or off.
pub(super) fn print_each(on: bool) {
    PRINTS.store(on, Relaxed);
}

/// Returns the holders of the memory at the last failure of this thread, while a recording runs.
pub(super) fn filled() -> Option<String> {
    let now = variables();
    let filled = counting::filled(|block| named::of_block(&now, block))?.to_string();
    if PRINTS.load(Relaxed) {
        write_stderr(&format!("toma: {filled}"));
    }
    Some(filled)
}

/// Returns the holders at a failure that was reported to no loop: it has ended the program, or the program handles it.
pub(super) fn unreported() -> Option<String> {
    let now = variables();
    Some(counting::unreported(|block| named::of_block(&now, block))?.to_string())
}

fn variables() -> ByAddress {
    running::named().map_or_else(ByAddress::new, |named| named.now())
}

/// Writes to standard error; if that is closed, the program must go on.
pub(super) fn write_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
