//! Which line filled the memory.
//!
//! Functions under `#[toma::profile]` tell which line runs; while a [`Profiler`] runs, every byte of CPU
//! tensors that is allocated or freed belongs to a line of them.
//!
//! ```
//! use tch::{Device, Kind, Tensor};
//! use toma_torch::profile::Profiler;
//!
//! let profiler = Profiler::new().start()?;
//! let _rows = Tensor::ones([1 << 10], (Kind::Float, Device::Cpu));
//! let recording = profiler.finish();
//! assert_eq!(recording.lines().to_string(), "no profiled function was called\n");
//! # Ok::<(), toma_torch::Error>(())
//! ```

mod profiler;
mod switch;

pub use profiler::{Profiler, Profiling, Recording};
pub use toma_trace::lines::{Column, Lines};

pub(crate) use switch::{install, print};
