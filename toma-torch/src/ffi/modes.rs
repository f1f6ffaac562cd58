//! The modes of the calling thread.

use toma_core::thread_state::Saved;

use super::{RawError, checked};
use crate::error::Error;

// Sound to call with anything, from any thread: they read and write variables of the calling one.
unsafe extern "C" {
    safe fn toma_modes_get(out: &mut [u64; 5]);
    safe fn toma_modes_set(modes: &[u64; 5], error: &mut RawError) -> i32;
    /// Drops what autocast has cast and keeps until its region ends; it casts again what is needed again.
    pub(crate) safe fn toma_casts_clear();
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

/// Whether this thread records for backward.
pub(crate) fn is_grad_enabled() -> bool {
    modes().0[2] & 1 != 0
}

/// How many autocast regions the thread is in that the modes are of.
pub(crate) fn autocast_depth(Saved([.., depth, _]): &Saved) -> u64 {
    *depth
}

// Of the CPU, which tch does not offer. It changes a mode of the calling thread.
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
