//! The attributes on functions as people write them.
//!
//! Each function here meets too little memory at least once, so that its body runs more than once.

#![expect(
    clippy::boxed_local,
    clippy::needless_arbitrary_self_type,
    clippy::needless_return,
    clippy::redundant_pattern,
    reason = "everything that can be written has to work"
)]

mod bodies;
mod data;
#[path = "../common/executor.rs"]
mod executor;
mod generics;
mod kept;
mod macros;
mod methods;
mod names;
mod parameters;
mod returns;

use std::fmt::Display;

use toma::classify::OutOfMemory;

/// Words that mean it.
const OUT_OF_MEMORY: &str = "CUDA out of memory. Tried to allocate 2.00 GiB";

/// Memory for at most `limit` items.
fn allocate(items: usize, limit: usize) -> Result<(), OutOfMemory> {
    if items > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

/// The same, as tensor libraries' ordinary methods say it.
fn allocate_or_panic(items: impl TryInto<usize>, limit: usize) {
    let items = items.try_into().unwrap_or_else(|_| unreachable!("sizes are positive"));
    assert!(items <= limit, "{OUT_OF_MEMORY}");
}

/// The message of the panic that `run` ends with.
fn panic_of<R>(run: impl FnOnce() -> R) -> String {
    let payload = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).err().expect("it panics");
    let text = payload.downcast_ref::<String>().cloned();
    text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string)).expect("the payload is a text")
}

/// Attempts of the last call that ran out of memory.
fn failures() -> usize {
    toma::report::last().expect("a call ended on this thread").out_of_memory
}

/// Shows a value, for bodies that take anything that can be shown.
fn show(value: &(impl Display + ?Sized)) -> String {
    value.to_string()
}
