use std::fmt;
use std::path::Path;

use toma_core::marks::Column;
use toma_trace::lines::Lines;

use super::profiler::Profiler;
use super::recording::Recording;
use crate::error::Error;
use crate::ffi::DeviceId;

/// Runs a closure and records its lines, for a cell of a notebook, which displays the value of its last line.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_torch::profile::{self, Column};
///
/// #[toma::profile]
/// fn sum(rows: i64) -> Tensor {
///     let ones = Tensor::ones([rows, 256], (Kind::Float, Device::Cpu));
///     ones.sum(Kind::Float)
/// }
///
/// let run = profile::run(|| sum(2048)).function("sum").columns([Column::Peak, Column::Rise]);
/// assert!(run.to_string().contains("2.00M"), "{run}");
/// assert_eq!(run.value.double_value(&[]), 2048.0 * 256.0);
/// ```
///
/// # Panics
/// When another profiler runs, and where `work` panics.
pub fn run<R>(work: impl FnOnce() -> R) -> Run<R> {
    let profiling = Profiler::new().start().unwrap_or_else(|error| panic!("run: {error}"));
    let value = work();
    let recording = profiling.finish();
    Run { value, lines: recording.lines(), recording }
}

/// Result of [`run`]: the closure's value, and the table of its lines.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::profile;
///
/// let run = profile::run(|| Tensor::ones([1 << 18], (Kind::Float, tch::Device::Cpu)).sum(Kind::Float));
/// assert_eq!(run.value.double_value(&[]), f64::from(1 << 18));
/// println!("{}", run.recording.peak());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run<R> {
    /// Value that the closure returned.
    pub value: R,
    /// The whole recording.
    pub recording: Recording,
    lines: Lines,
}

impl<R> Run<R> {
    /// Shows only functions of this name.
    #[must_use]
    pub fn function(self, name: &str) -> Self {
        Self { lines: self.lines.function(name), ..self }
    }

    /// Shows these columns, in this order.
    #[must_use]
    pub fn columns(self, columns: impl IntoIterator<Item = Column>) -> Self {
        Self { lines: self.lines.columns(columns), ..self }
    }

    /// Shows only this device.
    #[must_use]
    pub fn device(self, device: tch::Device) -> Self {
        Self { lines: self.lines.device(&DeviceId::of(device).place()), ..self }
    }

    /// Writes the table.
    ///
    /// # Errors
    /// When the file cannot be written; the error names it.
    pub fn write_text(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        super::recording::to_file(path.as_ref(), |file| {
            use std::io::Write as _;
            write!(file, "{self}")
        })
    }

    /// Shows the table in a notebook of evcxr, which calls this for the last value of a cell.
    pub fn evcxr_display(&self) {
        self.lines.evcxr_display();
    }
}

impl<R> fmt::Display for Run<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.fmt(f)
    }
}
