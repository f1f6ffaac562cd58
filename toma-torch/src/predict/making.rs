//! Predictions from dry runs at several sizes.

use std::cell::Cell;

use toma_core::{Auto, Judge};

use super::dry::{self, Ran};
use super::prediction::Prediction;
use super::workspaces;
use crate::error::Error;
use crate::ffi::Recording;
use crate::memory::Device;

/// Sizes that are run dry: small, so that kernels that are called take little time, and both multiples of the sizes
/// that libraries round to, so that a line through them holds beyond.
pub(crate) const SIZES: [u32; 2] = [4, 8];

/// Predicts the bytes that `step` takes from `device` at any size, by running it [dry](crate::dry_run).
///
/// `step` is called with 4 and with 8 items, twice each. Its values are held in between, as those of successive pieces
/// of a loop are, to find the bytes that pieces leave allocated. The device need not have the memory.
///
/// Bytes of other sizes are on a line through these two. The line is far too low for large sizes of a step with blocks
/// that grow with the square of its items, such as attention between the items. For such a step,
/// [`confirm`](Prediction::confirm) the size before you use it.
///
/// ```
/// use tch::{Device, Kind, Tensor};
///
/// let weight = Tensor::ones([256, 256], (Kind::Float, Device::Cpu)).set_requires_grad(true);
/// let device = toma_torch::Device::new(Device::Cpu);
/// let prediction = toma_torch::predict(&device, |size| {
///     let rows = Tensor::ones([size as i64, 256], (Kind::Float, Device::Cpu));
///     rows.matmul(&weight).relu().sum(Kind::Float).backward();
/// })?;
/// // How many rows fit into 24 GiB?
/// let size = prediction.fits(24 << 30).unwrap();
/// assert!(prediction.needs_bytes(size) <= 24 << 30);
/// println!("{}", prediction.explain());
/// # Ok::<(), toma_torch::Error>(())
/// ```
///
/// # Errors
/// When an operator cannot be run dry (the error names it); when `step` returns an error; when it does other things at
/// 8 items than at 4, with the first difference; and when it allocates no memory on `device` but elsewhere.
///
/// # Panics
/// When `step` panics, and when it keeps a tensor of a dry run.
pub fn predict<R, M>(device: &Device, mut step: impl FnMut(usize) -> R) -> Result<Prediction, Error>
where
    Auto: Judge<R, M>,
{
    predict_from(device, SIZES, &mut |_, size| step(size), &mut |_| ())
}

/// Predicts from other sizes. `undo` takes back the side effects of a piece of a size.
pub(crate) fn predict_from<R, M>(
    device: &Device,
    sizes: [u32; 2],
    step: &mut impl FnMut(&Recording, usize) -> R,
    undo: &mut impl FnMut(usize),
) -> Result<Prediction, Error>
where
    Auto: Judge<R, M>,
{
    from_runs(device, sizes, |by_shapes, size| two_pieces(by_shapes, size, step, undo))
}

/// Predicts from dry runs of two sizes; the flag of `run` requests a run by shapes alone.
pub(super) fn from_runs(
    device: &Device,
    sizes: [u32; 2],
    mut run: impl FnMut(bool, u32) -> Ran,
) -> Result<Prediction, Error> {
    let (mut traces, mut unknown) = (Vec::new(), Vec::new());
    for size in sizes {
        let (trace, names) = run(false, size)?;
        traces.push((size, trace));
        unknown.extend(names);
    }
    workspaces::take(device.device(), &traces[0].1);
    Prediction::new(device, traces, unknown)
}

/// Runs two pieces of a size dry, one after the other, each a scope of the trace; both are dropped before `undo`.
fn two_pieces<R, M>(
    by_shapes: bool,
    size: u32,
    step: &mut impl FnMut(&Recording, usize) -> R,
    undo: &mut impl FnMut(usize),
) -> Ran
where
    Auto: Judge<R, M>,
{
    let items = usize::try_from(size).unwrap_or(usize::MAX);
    let (mut failure, begun) = (None, Cell::new(0));
    let pieces = |recording: &Recording| {
        let mut piece = || {
            begun.update(|begun| begun + 1);
            step(recording, items)
        };
        let mut pieces = Vec::new();
        while pieces.len() < 2 && failure.is_none() {
            let ran = recording.marked(c"piece", &mut piece);
            failure = Auto.failure(&ran);
            pieces.push(ran);
        }
        pieces
    };
    let ran = dry::run(by_shapes, pieces, || (0..begun.get()).for_each(|_| undo(items)))?;
    match failure {
        None => Ok(ran),
        Some(failure) => Err(dry::failed(size, &failure)),
    }
}

impl Prediction {
    /// Runs `step` dry at one more size, and corrects the prediction by it: memory that grows in steps, or faster than
    /// linearly, shows at the size that is to be used. A size above all earlier ones runs by shapes alone.
    ///
    /// # Errors
    /// As [`predict`].
    ///
    /// # Panics
    /// As [`predict`].
    pub fn confirm<R, M>(self, size: usize, mut step: impl FnMut(usize) -> R) -> Result<Self, Error>
    where
        Auto: Judge<R, M>,
    {
        self.confirmed(size, &mut |_, size| step(size), &mut |_| ())
    }

    /// Confirms with an `undo` that takes back the side effects of a piece of a size.
    pub(crate) fn confirmed<R, M>(
        self,
        size: usize,
        step: &mut impl FnMut(&Recording, usize) -> R,
        undo: &mut impl FnMut(usize),
    ) -> Result<Self, Error>
    where
        Auto: Judge<R, M>,
    {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.confirmed_by(size, |by_shapes| two_pieces(by_shapes, size, step, undo))
    }
}

/// Returns the sizes to run dry: no single item if there are three, because libtorch chooses other operators for one.
pub(super) fn sizes_of(items: usize) -> [u32; 2] {
    match u32::try_from(items).unwrap_or(u32::MAX) {
        most if SIZES[1] <= most => SIZES,
        3 => [2, 3],
        most => [most / 2, most],
    }
}

pub(super) fn wide(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
