use std::marker::PhantomData;

use crate::ffi;

/// Puts this thread's grad mode, autocast and inference mode back to what they were when it is
/// dropped, whatever happened in between.
///
/// `tch::no_grad`, `tch::with_grad` and `tch::autocast` do not survive a panic: after an operator
/// that ran out of memory inside one of them, and panicked, gradients stay off for the rest of the
/// thread and the retry trains nothing. Let a body begin with a guard where it uses one of them.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::ModeGuard;
///
/// let weight = Tensor::ones([2], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// let failed = std::panic::catch_unwind(|| {
///     let _modes = ModeGuard::new();
///     tch::no_grad(|| panic!("out of memory"))
/// });
/// assert!(failed.is_err());
/// assert!((&weight * 2.0).requires_grad());
/// ```
#[must_use = "modes are put back when this guard is dropped"]
#[derive(Debug)]
pub struct ModeGuard {
    modes: ffi::Modes,
    autocast_depth: i32,
    of_thread: PhantomData<*const ()>,
}

impl ModeGuard {
    /// Remembers the modes in force.
    #[expect(clippy::new_without_default, reason = "a guard is made for what is in force now")]
    pub fn new() -> Self {
        Self { modes: ffi::modes(), autocast_depth: ffi::autocast_depth(), of_thread: PhantomData }
    }
}

impl Drop for ModeGuard {
    fn drop(&mut self) {
        // The weights that autocast has cast are kept until the outermost region is left; a region
        // that was left by a panic would keep them for good.
        for _ in self.autocast_depth..ffi::autocast_depth() {
            ffi::leave_autocast();
        }
        if ffi::modes() != self.modes {
            // It changes variables of this thread; nothing in it fails.
            let _ = ffi::set_modes(&self.modes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    /// The modes, of which autocast is one, and how many autocast regions there are.
    fn autocast() -> (ffi::Modes, i32) {
        (ffi::modes(), ffi::autocast_depth())
    }

    #[test]
    fn autocast_is_left_by_a_panic_with_its_state_and_its_depth() {
        let before = autocast();
        let failed = catch_unwind(|| {
            let _modes = ModeGuard::new();
            ffi::enter_autocast(true);
            ffi::enter_autocast(true);
            assert_ne!(autocast().0, before.0);
            panic!("out of memory");
        });
        assert!(failed.is_err());
        assert_eq!(autocast(), before);
    }

    #[test]
    fn a_guard_inside_a_region_leaves_only_what_was_entered_after_it() {
        ffi::enter_autocast(true);
        let within = autocast();
        let modes = ModeGuard::new();
        ffi::enter_autocast(false);
        drop(modes);
        assert_eq!(autocast(), within);
        assert_eq!(within.1, 1);
        ffi::leave_autocast();
    }
}
