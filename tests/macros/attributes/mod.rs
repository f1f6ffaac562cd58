//! The attributes on functions as people write them.
//!
//! Each function runs out of memory at least once, so that its body runs more than once.

#![expect(
    clippy::boxed_local,
    clippy::needless_arbitrary_self_type,
    clippy::needless_return,
    clippy::redundant_pattern,
    reason = "everything that can be written has to work"
)]

mod bodies;
mod data;
mod generics;
mod kept;
mod macros;
mod methods;
mod names;
mod parameters;
mod returns;

use std::fmt::Display;

use crate::kit::{OUT_OF_MEMORY, failures, fits, panic_of};

/// Panics for more than `limit` items, as ordinary methods of tensor libraries do.
fn allocate_or_panic(items: impl TryInto<usize>, limit: usize) {
    let items = items.try_into().unwrap_or_else(|_| unreachable!("sizes are positive"));
    assert!(items <= limit, "{OUT_OF_MEMORY}");
}

/// Formats a value, for bodies that take any `Display`.
fn show(value: &(impl Display + ?Sized)) -> String {
    value.to_string()
}
