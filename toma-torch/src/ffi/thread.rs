//! State of the calling thread: modes, and whether errors carry a backtrace.

use toma_core::thread_state::{self, Saved};

use super::{RawError, checked};
use crate::error::Error;
use crate::modes::TorchModes;

// Sound to call with anything, from any thread: they read and write variables of the calling one.
unsafe extern "C" {
    safe fn toma_traces_install(would_retry: extern "C" fn() -> bool);
    safe fn toma_traces_quiet(change: i32);
    safe fn toma_modes_get(out: &mut [u64; 4]);
    safe fn toma_casts_clear();
    safe fn toma_modes_set(modes: &[u64; 4], error: &mut RawError) -> i32;
}

ctor::declarative::ctor! {
    /// Before `main`, because libtorch takes a fetcher without a lock, and because nobody should
    /// have to call anything for attempts to be guarded.
    #[ctor(unsafe)]
    fn before_main() {
        toma_traces_install(would_retry);
        // Taken only by a program that registered modes of its own even earlier.
        let _ = thread_state::register(&TorchModes);
    }
}

/// The one thing the shim calls: it reads a variable of the thread, and cannot panic.
extern "C" fn would_retry() -> bool {
    thread_state::would_retry_out_of_memory()
}

/// Changes how many want this thread's errors without a backtrace.
pub(crate) fn quiet_traces(change: i32) {
    toma_traces_quiet(change);
}

/// The modes of this thread, as `toma_modes`.
pub(crate) fn modes() -> Saved {
    let mut saved = Saved::default();
    toma_modes_get(&mut saved.0);
    saved
}

pub(crate) fn set_modes(saved: &Saved) -> Result<(), Error> {
    checked(|error| toma_modes_set(&saved.0, error))
}

/// How many autocast regions the thread is in that the modes are of.
pub(crate) fn autocast_depth(Saved([.., depth]): &Saved) -> u64 {
    *depth
}

/// Drops what autocast has cast and keeps until its region ends; it casts again what is needed again.
pub(crate) fn clear_casts() {
    toma_casts_clear();
}

/// Enters an autocast region and switches autocast of CUDA; tch does both only where there is CUDA.
#[cfg(test)]
pub(crate) fn enter_autocast(enabled: bool) {
    // SAFETY: changes a counter of this thread.
    unsafe { torch_sys::at_autocast_increment_nesting() };
    // SAFETY: changes a mode of this thread.
    unsafe { torch_sys::at_autocast_set_enabled(enabled.into()) };
}

/// Enters an autocast region of the CPU, which tch does not offer.
#[cfg(test)]
pub(crate) fn enter_cpu_autocast() {
    unsafe extern "C" {
        // at::autocast::set_autocast_enabled(c10::DeviceType, bool), which sets a mode of the thread.
        #[link_name = "_ZN2at8autocast20set_autocast_enabledEN3c1010DeviceTypeEb"]
        safe fn set_autocast_enabled(kind: i8, enabled: bool);
    }
    // SAFETY: changes a counter of this thread.
    unsafe { torch_sys::at_autocast_increment_nesting() };
    set_autocast_enabled(0, true);
}
