//! Memory of CPU tensors: counted to the byte, and limited by a [`Budget`].
//!
//! libtorch leaves the host's memory to the system, which neither reports how much of it tensors hold nor refuses
//! a program that takes too much: it overcommits, swaps, and in the end kills the program. The allocator of this
//! module counts every byte of every CPU tensor made after it was installed, and refuses allocations beyond a
//! [`Budget`] with libtorch's own typed out-of-memory error, as a GPU does. So programs for a GPU can be tested
//! and run on a machine without one.
//!
//! Tensors are counted, and blocks that libraries such as oneDNN allocate through libtorch. Memory that these
//! libraries allocate themselves is not counted, nor is memory of this crate: states of random numbers, and the
//! zeros with which a [dry run](crate::dry_run) calls kernels. All counters of the allocator are in
//! [`Device::stats`](crate::Device::stats) of the CPU.
//!
//! The first call of a function of this module except [`Budget::current`], or of `Device::stats` of the CPU, installs
//! the allocator, which stays until the process ends. Installing it is sound at any time and from any thread: earlier
//! tensors are freed by the allocator that made them. They are not counted, so begin with [`count`].
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

use super::held::AllocatorLimit;
use crate::ffi;
use crate::stats::Stats;

/// Value of the shim's budget that means no budget.
const UNLIMITED: u64 = u64::MAX;

/// Counts the memory of every CPU tensor made from now on.
///
/// Costs some 20 ns and some 50 bytes per tensor. Calling it again changes nothing.
///
/// ```
/// use toma_torch::cpu;
///
/// fn main() {
///     cpu::count(); // before the first tensor
///     let tensor = tch::Tensor::from_slice(&[1_f32, 2.0]);
///     println!("{} bytes", cpu::allocated_bytes());
///     # drop(tensor);
/// }
/// ```
pub fn count() {
    COUNTING.call_once(|| ffi::toma_cpu_install());
}

static COUNTING: Once = Once::new();

/// Returns true once the counting allocator is installed.
pub(crate) fn is_counting() -> bool {
    COUNTING.is_completed()
}

/// Returns all counters of the allocator. Reserved bytes equal allocated bytes, because nothing is cached.
pub(crate) fn stats() -> Stats {
    count();
    ffi::toma_cpu_stats()
}

/// Bytes that CPU tensors hold now.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::cpu;
///
/// let before = cpu::allocated_bytes();
/// let tensor = Tensor::zeros([256], (Kind::Float, tch::Device::Cpu));
/// assert_eq!(cpu::allocated_bytes() - before, 1024);
/// # drop(tensor);
/// ```
pub fn allocated_bytes() -> u64 {
    count();
    ffi::toma_cpu_allocated_bytes()
}

/// The most bytes that CPU tensors held at any time since [`reset_peak_allocated_bytes`].
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::cpu;
///
/// cpu::reset_peak_allocated_bytes();
/// let before = cpu::allocated_bytes();
/// drop(Tensor::zeros([256], (Kind::Float, tch::Device::Cpu)));
/// assert_eq!(cpu::peak_allocated_bytes() - before, 1024);
/// ```
pub fn peak_allocated_bytes() -> u64 {
    stats().peak_allocated_bytes
}

/// Resets [`peak_allocated_bytes`] to the bytes that are allocated now.
///
/// ```
/// use toma_torch::cpu;
///
/// for epoch in 0..3 {
///     cpu::reset_peak_allocated_bytes();
///     // ... a step of training ...
///     println!("epoch {epoch}: {} bytes at most", cpu::peak_allocated_bytes());
/// }
/// ```
pub fn reset_peak_allocated_bytes() {
    count();
    ffi::toma_cpu_reset_peak();
}

/// A limit on the bytes that CPU tensors hold, which ends when this guard is dropped.
///
/// The limit holds for the whole process. Guards may overlap and be dropped in any order: the smallest of them is
/// the current limit, so the budget of a library never raises the budget of the program.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::cpu::{self, Budget};
///
/// cpu::count();
/// let budget = Budget::beyond_allocated(1 << 20);
/// assert!(Tensor::f_zeros([1 << 20], (Kind::Float, tch::Device::Cpu)).is_err()); // 4 MiB
/// drop(budget);
/// assert_eq!(Budget::current(), None);
/// ```
#[must_use = "the limit ends when this guard is dropped"]
#[derive(Debug)]
pub struct Budget {
    _held: AllocatorLimit,
}

impl Budget {
    /// Limits CPU tensors to `bytes` in total, including bytes that are allocated already.
    ///
    /// Existing tensors beyond the limit stay; only new allocations are refused.
    pub fn new(bytes: u64) -> Self {
        count();
        Self { _held: AllocatorLimit::new(tch::Device::Cpu, bytes) }
    }

    /// Limits CPU tensors to `bytes` more than are allocated now.
    pub fn beyond_allocated(bytes: u64) -> Self {
        Self::new(allocated_bytes().saturating_add(bytes))
    }

    /// Returns the current limit in bytes, the smallest of all guards; `None` without a guard.
    pub fn current() -> Option<u64> {
        Some(ffi::toma_cpu_budget()).filter(|bytes| *bytes != UNLIMITED)
    }
}

/// Makes one allocation of this thread fail, for tests. Dropping it cancels a failure that is still pending.
///
/// A test can let each allocation of a step fail, one at a time: it counts `skip` up until
/// [`has_failed`](Self::has_failed) is false: then the step has no more than `skip` allocations.
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
    /// Pending failure of an outer guard, restored on drop.
    before: Option<u32>,
    of_thread: PhantomData<*const ()>,
}

impl FailingAllocation {
    /// Lets `skip` allocations of this thread succeed and the next one fail, once.
    pub fn after(skip: u32) -> Self {
        count();
        Self { before: ffi::fail_cpu_allocation(Some(skip)), of_thread: PhantomData }
    }

    /// Returns true once the allocation has failed.
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
