//! What filled the memory, told where an attempt of a loop runs out of it.

use toma_trace::counting;

use super::named::{self, ByAddress};
use super::{running, switch};

/// What filled the memory at the last failure of this thread, while a recording runs.
pub(super) fn filled() -> Option<String> {
    let now = variables();
    let filled = counting::filled(|block| named::of_block(&now, block))?.to_string();
    if switch::prints_failures() {
        switch::say(&format!("toma: {filled}"));
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
