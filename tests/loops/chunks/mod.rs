//! Tests which data can be cut into chunks, and the contents of each chunk.

#[cfg(feature = "ndarray")]
mod arrays;
#[cfg(feature = "ndarray")]
mod axes;
mod extents;
mod flaky;
mod slices;
mod tuples;

use crate::kit::panic_of;

/// Fails the test if a body runs that must not. Returns `()`, because a body may not have the type `!` of `panic!`.
fn unreached() {
    panic!("the body ran");
}
