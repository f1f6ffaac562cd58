//! The body of a form, run dry where nothing is known of its sizes yet.

use std::collections::VecDeque;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use tch::Tensor;
use toma_core::memory::MemorySource as _;
use toma_core::predict::{Foreseen, Predict};

use super::prediction::{Prediction, SIZES, predict_from};
use crate::Device;
use crate::error::Error;
use crate::tensor::TensorData;

/// Runs the body dry before the first attempt, and starts with the largest size that fits: the option
/// `predict` of the forms for tensors.
///
/// The body runs at 4 and at 8 items, or at fewer where there are fewer, and nothing of the user's is
/// read or changed; see [`dry_run`](crate::dry_run). What is predicted is kept for each line of code that calls,
/// device and shape of the data. Where the body cannot run dry, sizes are found as without, and a line on standard error
/// says so once.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_core::{cache::NoCache, execute, report};
/// use toma_torch::{DryRun, Forward as _, cpu::Budget};
///
/// let rows = Tensor::ones([64, 1024], (Kind::Float, Device::Cpu));
/// let device = toma_torch::Device::of(&rows);
/// let _budget = Budget::beyond_allocated(400 << 10);
/// let form = execute::with::<NoCache>().device(&device).predict(&DryRun);
/// let squares = form.forward(&rows, |rows| rows.exp().square());
/// let report = report::last().unwrap();
/// assert_eq!((squares.size()[0], report.out_of_memory), (64, 0));
/// assert!(report.attempts > 1);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to choose")]
pub struct DryRun;

impl Predict for DryRun {
    fn foresee(&self, _: Option<usize>, _: u64) -> Option<Foreseen> {
        None
    }

    fn runs_dry(&self) -> bool {
        true
    }
}

impl Predict for Prediction {
    fn foresee(&self, items: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
        let Some(items) = items else {
            let size = self.fits(free_bytes)?;
            return Some(Foreseen { size, needs_bytes: self.needs_bytes(size) });
        };
        let size = self.fits_for(items, free_bytes)?.min(items);
        Some(Foreseen { size, needs_bytes: self.needs_bytes_in_pieces(size, items.div_ceil(size)) })
    }
}

impl Key {
    pub(crate) fn new(caller: &'static Location<'static>, data: &impl TensorData) -> Self {
        let mut shapes = Vec::new();
        data.describe(&mut |kind, sizes| shapes.push((kind, sizes.iter().skip(1).copied().collect())));
        Self { caller, device: data.device(), shapes }
    }
}

/// Predictions that are kept; beyond them the one made longest ago goes.
const KEPT: usize = 256;

/// `None`: the body cannot run dry.
type Made = Option<Arc<Prediction>>;

static PREDICTIONS: Mutex<VecDeque<(Key, Made)>> = Mutex::new(VecDeque::new());

/// What a prediction is of: the calling line, the device, and the data without the batch's extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    caller: &'static Location<'static>,
    device: tch::Device,
    shapes: Vec<(tch::Kind, Vec<i64>)>,
}

/// What is predicted of one call of a form.
#[derive(Debug)]
pub(crate) struct Foresight {
    prediction: Arc<Prediction>,
    items: usize,
    /// The whole output is held from the first piece on, when there are several.
    fills: bool,
}

impl Foresight {
    /// Takes the prediction that is kept for calls like this one, or makes one; `None` where the body cannot run
    /// dry. A single item is as small as it gets.
    ///
    /// `step` does with so many items what an attempt does; what it returns is held as what pieces leave is.
    pub(crate) fn of(
        key: Key,
        items: usize,
        fills: bool,
        step: impl FnMut(usize) -> Result<Tensor, Error>,
    ) -> Option<Self> {
        if items < 2 {
            return None;
        }
        let prediction = kept(&key).unwrap_or_else(|| made(key, items, step))?;
        Some(Self { prediction, items, fills })
    }
}

impl Predict for Foresight {
    fn foresee(&self, _: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
        let Self { prediction, items, fills } = self;
        let foreseen = prediction.foresee(Some(*items), free_bytes)?;
        if !fills || foreseen.size == *items {
            return Some(foreseen);
        }
        // A piece's rows stand beside the whole.
        let held = |pieces| prediction.needs_bytes_in_pieces(foreseen.size, pieces);
        let rows = held(3).saturating_sub(held(2));
        let Foreseen { size, needs_bytes } =
            prediction.foresee(Some(*items), free_bytes.saturating_sub(rows))?;
        Some(Foreseen { size, needs_bytes: needs_bytes.saturating_add(rows) })
    }
}

fn kept(key: &Key) -> Option<Made> {
    let predictions = PREDICTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    predictions.iter().find(|(known, _)| known == key).map(|(_, prediction)| prediction.clone())
}

/// Makes a prediction and keeps it, also that there is none.
fn made(key: Key, items: usize, step: impl FnMut(usize) -> Result<Tensor, Error>) -> Made {
    let say = |error: &Error| {
        toma_core::predict::say(&format!("toma: {}: not predicted: {error}", key.caller));
    };
    let prediction = predicted(&Device::new(key.device), items, step).inspect_err(say).map(Arc::new).ok();
    let mut predictions = PREDICTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if predictions.len() == KEPT {
        predictions.pop_front();
    }
    predictions.push_back((key, prediction.clone()));
    prediction
}

/// From two sizes, and confirmed at the one that it says fits.
fn predicted(
    device: &Device,
    items: usize,
    mut step: impl FnMut(usize) -> Result<Tensor, Error>,
) -> Result<Prediction, Error> {
    let most = u32::try_from(items).unwrap_or(u32::MAX);
    let sizes = if SIZES[1] <= most { SIZES } else { [most / 2, most] };
    let prediction = predict_from(device, sizes, &mut step)?;
    let fits = device.read().ok().and_then(|now| prediction.foresee(Some(items), now.free_bytes));
    match fits {
        Some(foreseen) => prediction.confirm(foreseen.size, step),
        None => Ok(prediction),
    }
}
