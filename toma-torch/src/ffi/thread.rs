//! State of the calling thread: modes, autocast, and whether errors carry a backtrace.

use toma_core::thread_state::{self, Saved};

use super::{RawError, checked};
use crate::error::Error;
use crate::modes::TorchModes;

/// `toma_modes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes {
    included: u64,
    excluded: u64,
    autograd: u64,
}

// Sound to call with anything, from any thread: they read and write variables of the calling one.
unsafe extern "C" {
    safe fn toma_traces_install(would_retry: extern "C" fn() -> bool);
    safe fn toma_traces_quiet(change: i32);
    safe fn toma_modes_get(out: &mut Modes);
    safe fn toma_modes_set(modes: &Modes, error: &mut RawError) -> i32;
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

impl Modes {
    pub(crate) fn pack(&self, autocast_depth: i32) -> Saved {
        let depth = u64::try_from(autocast_depth).unwrap_or_default();
        Saved([self.included, self.excluded, self.autograd, depth])
    }

    pub(crate) fn unpack(saved: &Saved) -> (Self, i32) {
        let Saved([included, excluded, autograd, depth]) = *saved;
        (Self { included, excluded, autograd }, i32::try_from(depth).unwrap_or_default())
    }
}

/// Changes how many want this thread's errors without a backtrace.
pub(crate) fn quiet_traces(change: i32) {
    toma_traces_quiet(change);
}

pub(crate) fn modes() -> Modes {
    let mut modes = Modes::default();
    toma_modes_get(&mut modes);
    modes
}

pub(crate) fn set_modes(modes: &Modes) -> Result<(), Error> {
    checked(|error| toma_modes_set(modes, error))
}

/// How many autocast regions this thread is in.
pub(crate) fn autocast_depth() -> i32 {
    enter_region();
    leave_region()
}

/// Enters or leaves autocast regions until there are so many.
pub(crate) fn set_autocast_depth(depth: i32) {
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
