//! Backtraces of errors, which are left out where the error will be retried.

use std::fs;

use toma_core::thread_state;

// Sound to call with any values, from any thread: a counter of the calling thread changes.
unsafe extern "C" {
    fn toma_backtraces_install(would_retry: extern "C" fn() -> bool);
    /// Changes the number of callers on this thread that want errors without a backtrace.
    pub(crate) safe fn toma_backtraces_quiet(change: i32);
}

/// Leaves backtraces out where an error will be retried.
///
/// Does nothing while other threads run, as in a library that is loaded later: errors are just as right, and each takes
/// libtorch milliseconds. If the number of threads is unknown, there may be others.
pub(crate) fn install_backtraces() -> bool {
    let has_one_thread = fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if has_one_thread {
        // SAFETY: no other thread raises an error while libtorch's fetcher is replaced.
        unsafe { toma_backtraces_install(would_retry) };
    }
    has_one_thread
}

/// Callback of the shim, which reads a variable of the thread and cannot panic.
extern "C" fn would_retry() -> bool {
    thread_state::would_retry_out_of_memory()
}

#[cfg(test)]
mod tests {
    /// A test runs in a thread of its own.
    #[test]
    fn where_other_threads_run_backtraces_are_left_to_libtorch() {
        assert!(!super::install_backtraces());
    }
}
