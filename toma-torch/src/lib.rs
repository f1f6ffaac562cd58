//! `toma` for tch: tensors processed in chunks, the memory of libtorch's devices, and a budget for CPU tensors that
//! runs out exactly as a GPU does.
//!
//! | | |
//! |---|---|
//! | [`Device`] | free and total bytes of a device, and the counters of its allocator |
//! | [`cpu`] | bytes of CPU tensors, a [budget](cpu::Budget), injected failures |
//! | [`backward_step`], [`backward`], [`forward`] | a step, gradients or an output in pieces that fit |
//! | [`Concatenate`] | one tensor from the parts that `map` collected |
//! | [`accumulate_gradients`] | backward that adds all gradients or none |
//! | [`record`](record()), [`dry_run`] | a trace of a step, run for real or dry |
//! | [`predict`](predict()) | bytes that a step takes at any size, before it has run once |
//! | [`profile`] | memory by line of source, and live tensors by name |
//! | [`assert_peak!`] | a step that takes no more than so many bytes |
//! | [`checkpoint`] | the same batch in less memory: activations are recomputed for backward |
//! | [`offload`] | models and steps larger than the device: unused tensors are evicted |
//! | [`ranks`] | processes that train together agree on sizes |
//! | [`Rollback`] | random state, gradients and other tensors put back before a retry |
//! | [`RngState`] | the same random numbers again |
//! | [`ModeGuard`] | grad mode and autocast survive a `catch_unwind` of your own |
//! | [`QuietBacktraces`] | errors without libtorch's slow C++ backtrace |
//!
//! Tensors can be processed in chunks: `&Tensor`, `&mut Tensor` and `Tensor` along any dim, also together with slices
//! in a tuple. A chunk is a view that shares storage.
//!
//! ```
//! # extern crate toma_torch;
//! use tch::{Device, Kind, Tensor};
//! use toma_core::execute;
//!
//! let output = Tensor::zeros([100, 8], (Kind::Float, Device::Cpu));
//! execute::chunked(&output, 32, |chunk, start, _end| {
//!     let _ = chunk.shallow_clone().fill_(start as f64);
//! });
//! assert_eq!(output.double_value(&[40, 0]), 32.0);
//! ```
//!
//! # No trace of a failed attempt
//!
//! A program that is linked with this package need not call anything for the following, which is set up before `main`.
//!
//! **Modes.** An attempt that fails leaves grad mode, inference mode, autocast and all other state that libtorch keeps
//! per thread to choose operators as they were before it. tch's own `no_grad`, `with_grad` and `autocast` do not
//! survive a panic, and its ordinary methods panic when memory runs out. Modes that a successful attempt has set stay
//! set. The modes of an async body belong to its task, as [`thread_state`](toma_core::thread_state) describes.
//!
//! **Error texts.** Where a failure would be retried, out-of-memory errors carry no C++ backtrace, which takes libtorch
//! milliseconds to write. All others keep theirs, and so does the error of an attempt that will not be retried. (Two
//! exceptions: the counting allocator of [`cpu`] never writes one, and an attempt whose deadline passes while it runs
//! was promised a retry when it began.) In a library that is loaded while other threads run, all errors keep theirs,
//! because libtorch takes the setting without a lock.
//!
//! **Memory.** The memory that the attempt allocated is freed before the retry, to the byte. Casts of weights that
//! autocast has cached for a region around the loop are dropped as well, and made again. So are gradients that a failed
//! backward has left in the thread's queue, where libtorch keeps them until a later backward.
//!
//! ```
//! use tch::{Device, Kind, Tensor};
//! use toma_core::NoCache;
//! use toma_core::execute;
//! use toma_torch::cpu::{self, Budget};
//!
//! cpu::count();
//! let weight = Tensor::ones([256], (Kind::Float, Device::Cpu)).set_requires_grad(true);
//! let _budget = Budget::beyond_allocated(40 << 10);
//! execute::with::<NoCache>().batch(64, |batch_size| {
//!     // The first attempt panics inside `no_grad`.
//!     let input = tch::no_grad(|| Tensor::ones([batch_size as i64, 256], (Kind::Float, Device::Cpu)));
//!     (input * &weight).sum(Kind::Float).backward();
//! });
//! assert!(weight.grad().defined());
//! ```
//!
//! A body itself has to undo its changes to values that it borrows. Two tools help it: gradients that are added [all or
//! not at all](accumulate_gradients), and a [`Rollback`] before the retry.

pub mod checkpoint;
mod error;
mod ffi;
mod forms;
mod memory;
mod notes;
pub mod offload;
mod predict;
pub mod profile;
pub mod ranks;
mod record;
mod registration;
mod state;
mod stats;
mod tensor;

pub use error::{Error, ErrorKind};
pub use forms::{Backward, Clipped, Forward, Loss, Steps, Variables, backward, backward_step, forward};
pub use memory::{Device, cpu};
pub use predict::{DryRun, Prediction, dry_run, dry_run_by_shapes, predict};
pub use record::record;
pub use state::{ModeGuard, QuietBacktraces, RngState, Rollback, accumulate_gradients};
pub use stats::Stats;
pub use tensor::{Concatenate, TensorData, Tensors};

/// Items for macro expansions. Not for users: anything here may change.
#[doc(hidden)]
pub mod __private {
    pub use crate::ffi::believe_copies;
    pub use crate::profile::peak::Measured;
}

/// Tests the programs of the READMEs, and those of the guide that need libtorch.
#[cfg(doctest)]
mod guide {
    #[doc = include_str!("../README.md")]
    mod manual {}
    #[doc = include_str!("../../README.md")]
    mod readme {}
    #[doc = include_str!("../../src/manual/trace.md")]
    mod trace {}
    #[doc = include_str!("../../docs/checkpoint.md")]
    mod checkpoint {}
    #[doc = include_str!("../../docs/offload.md")]
    mod offload {}
    #[doc = include_str!("../../docs/predict.md")]
    mod predict {}
    #[doc = include_str!("../../docs/profile.md")]
    mod profile {}
    #[doc = include_str!("../../docs/ranks.md")]
    mod ranks {}
    #[doc = include_str!("../../docs/tensors.md")]
    mod tensors {}
}
