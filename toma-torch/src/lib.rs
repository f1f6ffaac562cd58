//! `toma` for tch: tensors worked on in chunks, the memory of libtorch's devices, and a budget for
//! CPU tensors that runs out exactly as a GPU does.
//!
//! | | |
//! |---|---|
//! | [`Device`] | free and total bytes of a device, and what its allocator has counted |
//! | [`cpu`] | bytes of CPU tensors, a [budget](cpu::Budget), injected failures |
//! | [`Concatenate`] | one tensor from the parts that `map` collected |
//! | [`ModeGuard`] | grad mode and autocast survive a panic |
//! | [`QuietTraces`] | errors without libtorch's slow C++ backtrace |
//! | [`RngState`] | the same random numbers again |
//!
//! Tensors can be worked on in chunks: `&Tensor`, `&mut Tensor` and `Tensor` along any dim, also
//! together with slices in a tuple. A chunk is a view that shares storage.
//!
//! ```
//! use tch::{Device, Kind, Tensor};
//! use toma_core::execute;
//!
//! let output = Tensor::zeros([100, 8], (Kind::Float, Device::Cpu));
//! execute::chunked(&output, 32, |chunk, start, _end| {
//!     let _ = chunk.shallow_clone().fill_(start as f64);
//! });
//! assert_eq!(output.double_value(&[40, 0]), 32.0);
//! ```

pub mod cpu;
mod device;
mod error;
mod ffi;
mod gradients;
mod level;
mod modes;
mod rng;
mod snapshot;
mod tensor;
mod traces;

pub use device::{Device, Stats};
pub use error::{Error, ErrorKind};
pub use gradients::accumulate_gradients;
pub use modes::ModeGuard;
pub use rng::RngState;
pub use snapshot::Snapshot;
pub use tensor::{Concatenate, Tensors};
pub use traces::QuietTraces;
