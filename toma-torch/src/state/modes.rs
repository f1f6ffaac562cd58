//! Modes of a thread: gradients, autocast, inference.
//!
//! # Why
//!
//! One rule for all failures: modes are restored after every one, retried or passed on. The shim reads all modes in one
//! call, and they stay in the driver's stack frame, because moving them by value costs 62 instructions per attempt.
//!
//! Weights that autocast has cast are not kept from one poll of a future to the next: libtorch drops them when autocast
//! is left, and each poll leaves it for other tasks.

use std::marker::PhantomData;

use toma_core::thread_state::{Saved, ThreadState};

use crate::ffi;

/// Modes of a thread in libtorch, which the engine saves and restores around every attempt.
#[derive(Debug)]
pub(crate) struct TorchModes;

impl ThreadState for TorchModes {
    fn save(&self) -> Saved {
        ffi::modes()
    }

    fn restore(&self, saved: &Saved) {
        if ffi::modes() != *saved {
            // Changes only variables of this thread, so it cannot fail.
            let _ = ffi::set_modes(saved);
        }
    }

    fn recover(&self, saved: &Saved) {
        self.restore(saved);
        // Weights cast by a failed attempt would stay until the region around the loop ends, and the retry would lack
        // their memory.
        if ffi::autocast_depth(saved) > 0 {
            ffi::toma_casts_clear();
        }
        ffi::toma_backward_drop_stranded();
    }
}

/// Restores this thread's grad mode, autocast and inference mode when it is dropped.
///
/// `tch::no_grad`, `tch::with_grad` and `tch::autocast` do not survive a panic: if an operator inside one of them runs
/// out of memory and panics, gradients stay off for the rest of the thread. Attempts of a loop need no guard, because
/// [each is guarded](crate#no-trace-of-a-failed-attempt); use this one for a `catch_unwind` of your own.
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
    saved: Saved,
    of_thread: PhantomData<*const ()>,
}

impl ModeGuard {
    /// Saves the current modes.
    #[expect(clippy::new_without_default, reason = "a guard holds the current modes")]
    pub fn new() -> Self {
        Self { saved: TorchModes.save(), of_thread: PhantomData }
    }
}

impl Drop for ModeGuard {
    fn drop(&mut self) {
        TorchModes.restore(&self.saved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::panic::catch_unwind;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use toma_core::NoCache;
    use toma_core::execute;

    #[test]
    fn a_panic_leaves_only_the_autocast_regions_that_were_entered_after_the_guard() {
        let before = ffi::modes();
        ffi::enter_autocast(true);
        let within = ffi::modes();
        assert_ne!(within.0[..3], before.0[..3]);
        let failed = catch_unwind(|| {
            let _modes = ModeGuard::new();
            ffi::enter_autocast(true);
            ffi::enter_autocast(false);
            assert_ne!(ffi::modes(), within);
            assert_eq!(ffi::autocast_depth(&ffi::modes()), 3);
            panic!("out of memory");
        });
        assert!(failed.is_err());
        assert_eq!((ffi::modes(), ffi::autocast_depth(&within)), (within, 1));
        TorchModes.restore(&before);
        assert_eq!(ffi::modes(), before);
    }

    #[test]
    fn attempts_that_fail_inside_autocast_leave_it_and_one_that_succeeds_stays() {
        let before = ffi::modes();
        let mut seen = Vec::new();
        execute::with::<NoCache>().batch(4, |batch_size| {
            seen.push(ffi::modes() == before);
            let mut half = before;
            half.0[4] = 5; // The type that autocast casts to, as c10's number.
            ffi::set_modes(&half).unwrap();
            assert_eq!(ffi::modes(), half);
            ffi::enter_autocast(true);
            assert!(batch_size < 2, "CUDA out of memory.");
        });
        assert_eq!(seen, [true, true, true]);
        let after = ffi::modes();
        assert_eq!((ffi::autocast_depth(&after), after.0[4]), (1, 5));
        TorchModes.restore(&before);
        assert_eq!(ffi::modes(), before);
    }

    #[test]
    fn a_task_that_waits_inside_autocast_is_in_it_alone() {
        #[toma::batch(initial = 2, cache = NoCache)]
        async fn cast(batch_size: usize) {
            let before = ffi::modes();
            ffi::enter_autocast(true);
            let within = ffi::modes();
            let mut first = true;
            poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await;
            assert_eq!(ffi::modes(), within);
            assert!(batch_size < 2, "CUDA out of memory.");
            TorchModes.restore(&before);
        }
        let before = ffi::modes();
        let (mut task, mut polls) = (pin!(cast()), 0);
        while task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            assert_eq!(ffi::modes(), before);
            polls += 1;
        }
        assert_eq!((polls, ffi::modes()), (3, before));
    }
}
