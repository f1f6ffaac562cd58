use std::marker::PhantomData;

use crate::ffi;

/// While it lives, no error of libtorch that this thread catches carries a C++ backtrace.
///
/// Writing down a backtrace takes libtorch 6 to 11 ms, a hundred times what the failure itself
/// takes; where a retry follows the error it is never read. Attempts of a loop leave out those of
/// out of memory [by themselves](crate#no-trace-of-a-failed-attempt); this guard leaves out all, for
/// code of your own that tries things. Once it is gone errors have theirs again.
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
    /// No backtraces from now on, for this thread.
    #[expect(clippy::new_without_default, reason = "what it does is no default")]
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
