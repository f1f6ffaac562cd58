//! Gradients and graphs that a backward leaves behind.

use std::ffi::c_void;

use tch::Tensor;

use super::{RawError, checked};
use crate::error::Error;

// The first function is sound to call from any thread: it changes a queue of the calling thread.
unsafe extern "C" {
    /// Drops gradients that failed backwards of this thread have left in its queue.
    pub(crate) safe fn toma_backward_drop_stranded();
    // Takes a pointer to a tensor of libtorch.
    fn toma_backward_wait(loss: *const c_void, error: &mut RawError) -> i32;
}

/// Waits until libtorch's thread for the device of `loss` has released all earlier graphs. On the CPU nothing waits.
pub(crate) fn wait_for_backward(loss: &Tensor) -> Result<(), Error> {
    if loss.device() == tch::Device::Cpu {
        return Ok(());
    }
    checked(|error| {
        // SAFETY: a tensor holds a pointer to a tensor of libtorch, which lives as long as it does.
        unsafe { toma_backward_wait(loss.as_ptr().cast(), error) }
    })
}
