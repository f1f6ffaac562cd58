//! Whether errors carry a backtrace.

use toma_core::thread_state;

// Sound to call with anything, from any thread: a number of the calling thread changes.
unsafe extern "C" {
    fn toma_backtraces_install(would_retry: extern "C" fn() -> bool) -> bool;
    /// Changes how many want this thread's errors without a backtrace.
    pub(crate) safe fn toma_backtraces_quiet(change: i32);
}

/// Leaves backtraces out where an error will be retried.
///
/// In a library that is loaded while other threads run nothing happens: errors are as right there, and
/// take libtorch milliseconds.
pub(crate) fn install_backtraces() {
    // SAFETY: called once, before `main` or while the library is loaded.
    unsafe { toma_backtraces_install(would_retry) };
}

/// The one thing the shim calls: it reads a variable of the thread, and cannot panic.
extern "C" fn would_retry() -> bool {
    thread_state::would_retry_out_of_memory()
}
