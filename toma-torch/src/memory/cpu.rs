//! Memory of CPU tensors: counted to the byte, and limited where you say so.
//!
//! libtorch leaves the host's memory to the system, which tells neither how much tensors hold nor
//! when they hold too much: it overcommits, swaps, and in the end kills. The allocator of this
//! module stands between. It counts every byte of every CPU tensor made after it was put in place,
//! and refuses what exceeds a [`Budget`] with libtorch's own typed out-of-memory error, as a GPU
//! does. So programs for a GPU can be tested, and run, where there is none.
//!
//! Counted are tensors, and blocks that libraries such as oneDNN take through libtorch; what they take
//! beside it is not. Nor is what this crate takes for itself: states of random numbers, and the zeros
//! with which a [dry run](crate::dry_run) asks kernels.
//!
//! The allocator is put in place by the function of this module that is called first, or by
//! [`Device::stats`](crate::Device::stats) of the CPU, and stays until the process ends. That is sound
//! at any time and from any thread: tensors from before are freed as they would have been. They are not
//! counted, so begin with [`count`].
//!
//! ```
//! use tch::{Device, Kind, Tensor};
//! use toma_torch::cpu::{self, Budget};
//!
//! cpu::count();
//! let budget = Budget::beyond_allocated(1 << 20);
//! let fits = Tensor::f_zeros([1 << 10], (Kind::Float, Device::Cpu));
//! let does_not = Tensor::f_zeros([1 << 20], (Kind::Float, Device::Cpu));
//! assert!(fits.is_ok() && does_not.is_err());
//! drop(budget);
//! assert!(Tensor::f_zeros([1 << 20], (Kind::Float, Device::Cpu)).is_ok());
//! ```

use std::marker::PhantomData;
use std::sync::Once;

use super::held::Held;
use crate::ffi;
use crate::stats::Stats;

/// What stands for no budget.
const UNLIMITED: u64 = u64::MAX;

/// Counts the memory of every CPU tensor made from now on.
///
/// Costs some 20 ns and some 50 bytes per tensor. Calling it again changes nothing.
pub fn count() {
    COUNTING.call_once(|| ffi::toma_cpu_install());
}

static COUNTING: Once = Once::new();

/// Whether anything is counted at all.
pub(crate) fn is_counting() -> bool {
    COUNTING.is_completed()
}

/// All that has been counted. What is reserved is what is allocated: nothing is held back.
pub fn stats() -> Stats {
    count();
    ffi::toma_cpu_stats()
}

/// Bytes that CPU tensors hold now.
pub fn allocated_bytes() -> u64 {
    count();
    ffi::toma_cpu_allocated_bytes()
}

/// The most bytes that CPU tensors held at any time since [`reset_peak_allocated_bytes`].
pub fn peak_allocated_bytes() -> u64 {
    stats().peak_allocated_bytes
}

/// Lets [`peak_allocated_bytes`] begin again with what is allocated now.
pub fn reset_peak_allocated_bytes() {
    count();
    ffi::toma_cpu_reset_peak();
}

/// A limit on the bytes that CPU tensors hold, which ends when this guard is dropped.
///
/// Of the whole process. Guards may live at the same time and end in any order: the smallest living one
/// holds. So a library's budget never lifts the program's.
#[must_use = "the limit ends when this guard is dropped"]
#[derive(Debug)]
pub struct Budget {
    _held: Held,
}

impl Budget {
    /// A limit of `bytes` in all, whatever is allocated already.
    ///
    /// What is allocated beyond it stays; only new allocations are refused.
    pub fn new(bytes: u64) -> Self {
        count();
        Self { _held: Held::new(tch::Device::Cpu, bytes) }
    }

    /// A limit of `bytes` more than is allocated now.
    pub fn beyond_allocated(bytes: u64) -> Self {
        Self::new(allocated_bytes().saturating_add(bytes))
    }

    /// Bytes of the limit that holds: the smallest; `None` when there is none.
    pub fn in_force() -> Option<u64> {
        Some(ffi::toma_cpu_budget()).filter(|bytes| *bytes != UNLIMITED)
    }
}

/// An allocation of this thread that will fail, for tests; none is left to fail once this guard is
/// dropped.
///
/// With it a test can let every single allocation of a step fail, one at a time: an n for which
/// nothing [has failed](Self::has_failed) is one more than there are.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::cpu::FailingAllocation;
///
/// let failing = FailingAllocation::after(1);
/// assert!(Tensor::f_zeros([8], (Kind::Float, Device::Cpu)).is_ok());
/// assert!(Tensor::f_zeros([8], (Kind::Float, Device::Cpu)).is_err());
/// assert!(Tensor::f_zeros([8], (Kind::Float, Device::Cpu)).is_ok());
/// assert!(failing.has_failed());
/// ```
#[must_use = "no allocation fails once this guard is dropped"]
#[derive(Debug)]
pub struct FailingAllocation {
    /// What was armed before, which is armed again in the end.
    before: Option<u32>,
    of_thread: PhantomData<*const ()>,
}

impl FailingAllocation {
    /// Lets `skip` allocations of this thread pass and the next fail, once.
    pub fn after(skip: u32) -> Self {
        count();
        Self { before: ffi::fail_cpu_allocation(Some(skip)), of_thread: PhantomData }
    }

    /// Whether it has failed by now.
    pub fn has_failed(&self) -> bool {
        let left = ffi::fail_cpu_allocation(None);
        ffi::fail_cpu_allocation(left);
        left.is_none()
    }
}

impl Drop for FailingAllocation {
    fn drop(&mut self) {
        ffi::fail_cpu_allocation(self.before);
    }
}
