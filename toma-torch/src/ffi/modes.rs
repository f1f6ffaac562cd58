//! Modes of the calling thread.

use toma_core::thread_state::Saved;

use super::{RawError, checked};
use crate::error::Error;

// Sound to call with any values, from any thread: they read and write variables of the calling thread.
unsafe extern "C" {
    safe fn toma_modes_get(out: &mut [u64; 5]);
    safe fn toma_modes_set(modes: &[u64; 5], error: &mut RawError) -> i32;
    /// Drops the casts that autocast caches until its region ends; autocast makes them again when needed.
    pub(crate) safe fn toma_casts_clear();
}

/// Returns the modes of this thread, in the layout of `toma_modes`.
pub(crate) fn modes() -> Saved {
    let mut saved = Saved::default();
    toma_modes_get(&mut saved.0);
    saved
}

pub(crate) fn set_modes(saved: &Saved) -> Result<(), Error> {
    checked(|error| toma_modes_set(&saved.0, error))
}

/// Returns true if this thread records operators for backward.
pub(crate) fn is_grad_enabled() -> bool {
    modes().0[2] & 1 != 0
}

/// Returns the number of autocast regions that the thread of these modes is in.
pub(crate) fn autocast_depth(Saved([.., depth, _]): &Saved) -> u64 {
    *depth
}

// For the CPU, which tch does not offer. It changes a mode of the calling thread.
#[cfg(test)]
unsafe extern "C" {
    // at::autocast::set_autocast_enabled(c10::DeviceType, bool)
    #[link_name = "_ZN2at8autocast20set_autocast_enabledEN3c1010DeviceTypeEb"]
    safe fn set_autocast_enabled(kind: i8, enabled: bool);
}

/// Enters an autocast region and switches autocast of the CPU.
#[cfg(test)]
pub(crate) fn enter_autocast(enabled: bool) {
    // SAFETY: changes a counter of this thread.
    unsafe { torch_sys::at_autocast_increment_nesting() };
    set_autocast_enabled(0, enabled);
}
