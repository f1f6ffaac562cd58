//! Makes an attempt fail, by a panic inside of it, as tch's ordinary methods fail.
//!
//! No error of the body's own type can be made here, and a panic goes through the same hook and the
//! same classification as a real one.

use std::future::Future;
use std::panic::panic_any;

use super::verdict::Injected;
use super::{active, verdict};
use crate::classify::{Class, OutOfMemory};
use crate::shield::Retryable;

/// Returns the failure that the coming attempt is to meet. Injects only if the engine could retry after running out of
/// memory and a panic can be caught: not at a single item, which may only be left out.
#[inline]
pub(crate) fn ask(retryable: Retryable, size: usize) -> Option<Injected> {
    let possible = cfg!(panic = "unwind") && retryable.out_of_memory() && size > 1 && active();
    if possible { verdict(size) } else { None }
}

impl Injected {
    /// Runs the body and fails, or fails at once.
    pub(crate) fn around<R>(self, body: impl FnOnce() -> R) -> R {
        if self.after_body {
            drop(body());
        }
        self.fail()
    }

    /// As `around`, for an async body.
    pub(crate) async fn around_async<R>(self, body: impl Future<Output = R>) -> R {
        if self.after_body {
            drop(body.await);
        }
        self.fail()
    }

    /// Panics with the payload of a real failure of the class.
    fn fail(self) -> ! {
        let when = if self.after_body { "after" } else { "instead of" };
        let how = format_args!("injected by a test {when} running the body");
        match self.class {
            Class::OutOfMemory => panic_any(OutOfMemory::new(self.requested_bytes)),
            Class::Transient => panic!("CUBLAS_STATUS_INTERNAL_ERROR, {how}"),
            Class::Poisoned => panic!("an illegal memory access was encountered, {how}"),
            Class::Other => panic!("a failure {how}"),
        }
    }
}
