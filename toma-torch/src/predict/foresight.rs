//! The body of a form, run dry where nothing is known of its sizes yet.

use std::collections::VecDeque;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use tch::Tensor;
use toma_core::predict::{Foreseen, Predict};

use super::prediction::{Prediction, SIZES, predict_from};
use crate::Device;
use crate::error::Error;
use crate::forms::TensorData;

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

/// Asks the prediction that is kept for calls like this one, or makes one.
pub(crate) struct Foresight<'a> {
    pub(crate) key: Key,
    pub(crate) items: usize,
    /// Does with so many items what an attempt does; what it returns is held as what pieces leave is.
    pub(crate) step: &'a dyn Fn(usize) -> Result<Tensor, Error>,
    /// The whole output is held from the first piece on, when there are several.
    pub(crate) fills: bool,
}

impl Foresight<'_> {
    fn prediction(&self, free_bytes: u64) -> Made {
        if let Some(kept) = kept(&self.key) {
            return kept;
        }
        let made = self.predict(free_bytes);
        let say = |error: &Error| {
            toma_core::predict::say(&format!("toma: {}: not predicted: {error}", self.key.caller));
        };
        let prediction = made.inspect_err(say).map(Arc::new).ok();
        let mut predictions = PREDICTIONS.lock().unwrap_or_else(PoisonError::into_inner);
        if predictions.len() == KEPT {
            predictions.pop_front();
        }
        predictions.push_back((self.key.clone(), prediction.clone()));
        prediction
    }

    /// From two sizes, and confirmed at the one that it says fits.
    fn predict(&self, free_bytes: u64) -> Result<Prediction, Error> {
        let items = u32::try_from(self.items).unwrap_or(u32::MAX);
        let sizes = if SIZES[1] <= items { SIZES } else { [items / 2, items] };
        let prediction = predict_from(&Device::new(self.key.device), sizes, &mut { self.step })?;
        match self.fitting(&prediction, free_bytes) {
            Some(foreseen) => prediction.confirm(foreseen.size, self.step),
            None => Ok(prediction),
        }
    }

    fn fitting(&self, prediction: &Prediction, free_bytes: u64) -> Option<Foreseen> {
        let items = self.items;
        let foreseen = prediction.foresee(Some(items), free_bytes)?;
        if !self.fills || foreseen.size == items {
            return Some(foreseen);
        }
        // A piece's rows stand beside the whole.
        let held = |pieces| prediction.needs_bytes_in_pieces(foreseen.size, pieces);
        let rows = held(3).saturating_sub(held(2));
        let Foreseen { size, needs_bytes } =
            prediction.foresee(Some(items), free_bytes.saturating_sub(rows))?;
        Some(Foreseen { size, needs_bytes: needs_bytes.saturating_add(rows) })
    }
}

fn kept(key: &Key) -> Option<Made> {
    let predictions = PREDICTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    predictions.iter().find(|(known, _)| known == key).map(|(_, prediction)| prediction.clone())
}

impl Predict for Foresight<'_> {
    fn foresee(&self, _: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
        // A single item is as small as it gets.
        let prediction = if self.items > 1 { self.prediction(free_bytes)? } else { return None };
        self.fitting(&prediction, free_bytes)
    }
}

impl fmt::Debug for Foresight<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Foresight").field(&self.key).finish()
    }
}
