//! What can be cut into chunks, and that each chunk is what it should be.

#[cfg(feature = "ndarray")]
mod arrays;
#[cfg(feature = "ndarray")]
mod axes;
mod extents;
mod flaky;
mod slices;
mod tuples;

use crate::kit::panic_of;

/// A body that is not to run. Returns nothing, unlike `panic!`, which is of no type a body may have.
fn unreached() {
    panic!("the body ran");
}
