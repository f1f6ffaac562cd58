//! What can be cut into chunks, and that each chunk is what it should be.

#[cfg(feature = "ndarray")]
mod arrays;
#[cfg(feature = "ndarray")]
mod axes;
mod extents;
mod flaky;
mod slices;
mod tuples;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The words `work` panics with.
fn panic_of(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("it panics");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => (*panic.downcast_ref::<&str>().expect("a text")).to_owned(),
    }
}

/// A body that is not to run. Returns nothing, unlike `panic!`, which is of no type a body may have.
fn unreached() {
    panic!("the body ran");
}
