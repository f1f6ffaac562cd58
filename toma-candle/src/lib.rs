//! `toma` for candle: tensors in chunks, errors by their types, and the memory of devices.
//!
//! | | |
//! |---|---|
//! | [`Chunked`](toma_core::chunk::Chunked) | `&Tensor` and `Tensor` along any dimension, also in tuples with other data |
//! | [`Concatenate`] | one tensor from the values that [`map`](toma_core::execute::map) has collected |
//! | [`memory`](fn@memory) | the memory of a candle device, for the option `device` |
//!
//! A program that is linked with this package need not register candle's errors: they are registered before `main`.
//!
//! ```
//! # mod toma { pub use {toma_core::*, toma_candle as candle}; }
//! use candle_core::{Device, Result, Tensor};
//! use toma::{GlobalCache, candle::{Concatenate as _, memory}, execute};
//!
//! /// The norm of each row, of as many rows at a time as there is memory for their squares.
//! fn norms(rows: &Tensor) -> Result<Tensor> {
//!     let memory = memory(rows.device())?;
//!     execute::with::<GlobalCache>()
//!         .device(&*memory)
//!         .map(0..rows.dim(0)?, 4096, |start, end| rows.narrow(0, start, end - start)?.sqr()?.sum(1)?.sqrt())
//!         .concatenate(0)
//! }
//!
//! let rows = Tensor::new(&[[3_f32, 4.0], [6.0, 8.0]], &Device::Cpu)?;
//! assert_eq!(norms(&rows)?.to_vec1::<f32>()?, [5.0, 10.0]);
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! To write results in place, pass the start of the piece to [`slice_set`](candle_core::Tensor::slice_set):
//! `output.slice_set(&rows, 0, start)`. Both have to be contiguous, which candle checks.

mod class;
mod memory;
mod tensors;

pub use memory::memory;
pub use tensors::{Concatenate, Tensors};
