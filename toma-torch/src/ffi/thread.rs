//! State of the calling thread: modes, autocast, and whether errors carry a backtrace.

use toma_core::thread_state::{self, Saved};

use super::{RawError, checked};
use crate::error::Error;
use crate::modes::TorchModes;

/// `toma_modes`: the dispatch keys that are included and excluded, and the modes of autograd.
type Words = [u64; 3];

// Sound to call with anything, from any thread: they read and write variables of the calling one.
unsafe extern "C" {
    safe fn toma_traces_install(would_retry: extern "C" fn() -> bool);
    safe fn toma_traces_quiet(change: i32);
    safe fn toma_modes_get(out: &mut Words);
    safe fn toma_modes_set(modes: &Words, error: &mut RawError) -> i32;
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

/// The modes of this thread, and how many autocast regions it is in.
///
/// They are written where they stay: copied as a whole, words that were just written one by one cost
/// as much again as all of this.
#[inline]
pub(crate) fn modes() -> Saved {
    let mut saved = Saved::default();
    let Saved([words @ .., depth]) = &mut saved;
    toma_modes_get(words);
    *depth = autocast_depth().into();
    saved
}

pub(crate) fn set_modes(Saved([words @ .., depth]): &Saved) -> Result<(), Error> {
    // Regions first: leaving the last one drops the weights that autocast has cast, and a region that
    // was left by a panic would keep them for good.
    set_autocast_depth(u32::try_from(*depth).unwrap_or_default());
    checked(|error| toma_modes_set(words, error))
}

fn autocast_depth() -> u32 {
    enter_region();
    leave_region().unsigned_abs()
}

/// Enters or leaves autocast regions until there are so many.
fn set_autocast_depth(depth: u32) {
    let now = autocast_depth();
    (now..depth).for_each(|_| _ = enter_region());
    (depth..now).for_each(|_| _ = leave_region());
    if depth == 0 && now > 0 {
        // SAFETY: drops tensors that autocast can make again, as the end of a region does.
        unsafe { torch_sys::at_autocast_clear_cache() };
    }
}

fn enter_region() -> i32 {
    // SAFETY: changes a counter of this thread and returns it.
    unsafe { torch_sys::at_autocast_increment_nesting() }
}

fn leave_region() -> i32 {
    // SAFETY: changes a counter of this thread and returns it.
    unsafe { torch_sys::at_autocast_decrement_nesting() }
}

/// Enters an autocast region and switches autocast of CUDA; tch does both only where there is CUDA.
#[cfg(test)]
pub(crate) fn enter_autocast(enabled: bool) {
    enter_region();
    // SAFETY: changes a mode of this thread.
    unsafe { torch_sys::at_autocast_set_enabled(enabled.into()) };
}
