//! Which line filled the memory.
//!
//! Functions under `#[toma::profile]` tell which line runs; while a [`Profiler`] runs, every byte of CPU
//! tensors that is allocated or freed belongs to a line of them.
//!
//! ```
//! use tch::{Device, Kind, Tensor};
//! use toma_torch::profile::Profiler;
//!
//! #[toma::profile]
//! fn sum(rows: i64) -> f64 {
//!     let rows = Tensor::ones([rows, 256], (Kind::Float, Device::Cpu));
//!     let squares = rows.square();
//!     squares.sum(Kind::Float).double_value(&[])
//! }
//!
//! let profiling = Profiler::new().start()?;
//! sum(4);
//! println!("{}", profiling.finish().lines());
//! # Ok::<(), toma_torch::Error>(())
//! ```

mod attempts;
mod filled;
mod inventory;
mod named;
pub(crate) mod peak;
mod profiler;
mod recording;
mod run;
mod running;
mod states;
mod switch;

pub use inventory::{Stocktaking, inventory};
pub use profiler::{Depth, Profiler, Profiling};
pub use recording::{Peak, Recording};
pub use run::{Run, run};
pub use running::{label, optimizer};
pub use toma_trace::holdings::{Holdings, Inventory};
pub use toma_trace::lines::{Column, Diff, Lines, NoEvents};

pub(crate) use attempts::register;
pub(crate) use switch::{install, print};

/// Forgets what the recording of `TOMA_PROFILE` has so far, as [`Profiling::clear`] does for others.
pub fn clear() {
    switch::clear();
}
