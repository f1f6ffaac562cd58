use std::marker::PhantomData;

use crate::ffi;

/// Guard that turns off C++ backtraces in the errors of libtorch that this thread catches.
///
/// libtorch needs 6 to 11 ms to record a backtrace, a hundred times as long as the failure itself;
/// if a retry follows, nobody reads it. Attempts of a loop leave out the backtraces of out-of-memory
/// errors [by themselves](crate#no-trace-of-a-failed-attempt). This guard leaves out all backtraces,
/// for code of your own that tries operations. Errors after the guard have backtraces again.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::QuietBacktraces;
///
/// let wrong = || Tensor::ones([2], (Kind::Float, Device::Cpu)).f_reshape([3]).unwrap_err().to_string();
/// let quiet = QuietBacktraces::new();
/// assert!(!wrong().contains("frame #"));
/// drop(quiet);
/// assert!(wrong().contains("frame #"));
/// ```
#[must_use = "backtraces are back when this guard is dropped"]
#[derive(Debug)]
pub struct QuietBacktraces {
    of_thread: PhantomData<*const ()>,
}

impl QuietBacktraces {
    /// Turns backtraces off for this thread.
    #[expect(clippy::new_without_default, reason = "a guard acts when it is made")]
    pub fn new() -> Self {
        ffi::toma_backtraces_quiet(1);
        Self { of_thread: PhantomData }
    }
}

impl Drop for QuietBacktraces {
    fn drop(&mut self) {
        ffi::toma_backtraces_quiet(-1);
    }
}
