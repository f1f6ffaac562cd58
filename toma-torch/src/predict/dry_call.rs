//! Predictions for any form, whose call lends its body for dry runs.

use std::sync::Arc;

use toma_core::classify::Failure;
use toma_core::predict::{DryCall, Piece, Predict, PredictedSize, Shown, print};

use super::dry::{self, Ran};
use super::kept::{Kept, Store};
use super::making::{SIZES, from_runs, wide};
use super::prediction::Prediction;
use crate::Device;
use crate::error::{Error, ErrorKind};
use crate::ffi::Recording;

/// Predictions by call site, key, memory and shape of the data; paces by all of these but the shape.
static PREDICTIONS: Store<u64, u64> = Store::new();

impl Predict for Kept {
    fn predict(&self, items: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
        self.prediction.as_ref()?.predict(items, free_bytes)
    }

    fn why_not(&self) -> Option<String> {
        Some(self.why_none())
    }

    fn predict_rest(&self, left: usize, is_packed: bool, free_bytes: u64) -> Option<PredictedSize> {
        self.prediction.as_ref()?.predict_rest(left, is_packed, free_bytes)
    }

    fn piece(&self, size: usize) -> Option<Piece> {
        self.prediction.as_ref()?.piece(size)
    }

    fn is_unproven(&self) -> bool {
        self.prediction.as_ref().is_some_and(Predict::is_unproven)
    }

    fn learn(&self, shown: Shown) {
        match (shown, &self.prediction) {
            (Shown::Ended { elapsed }, _) => self.pace.called(elapsed),
            (shown, Some(prediction)) => prediction.learn(shown),
            (_, None) => {}
        }
    }
}

/// Predicts the size that fits now, by a kept prediction or by dry runs. `None` if there is nothing to choose, if the
/// body cannot run dry, which is reported once, and if dry runs would take too long.
pub(super) fn predict(call: &mut DryCall<'_>) -> Option<PredictedSize> {
    let sizes = call.sizes(wide(SIZES[1]))?;
    let (key, site, name) = (call.key(), call.site(), call.name);
    let print_why = |error: &Error| print(&format!("toma: {name}: not predicted: {error}"));
    let found = || predicted(call, sizes).map(|prediction| (prediction, None));
    let (_, kept) = PREDICTIONS.of((&key, &site), |_, _| None::<()>, found, print_why);
    call.kept = Some(Arc::<Kept>::clone(&kept));
    kept.prediction.as_ref()?.predict_call(call)
}

/// Predicts from two sizes, and confirms at the size that fits.
fn predicted(call: &mut DryCall<'_>, sizes: [usize; 2]) -> Result<Prediction, Error> {
    let unsupported = |message: String| Error::new(ErrorKind::Unsupported, message);
    if !call.can_run() {
        return Err(unsupported("an asynchronous body cannot run dry".to_owned()));
    }
    let name = call.device.name();
    let device = Device::named(name)
        .ok_or_else(|| unsupported(format!("memory `{name}` is of no device that libtorch knows")))?;
    let mut prediction =
        from_runs(&device, sizes.map(narrow), |by_shapes, size| pieces(call, by_shapes, size))?;
    for _ in 0..prediction.rounds() {
        let predicted = prediction.predict_call(call).map(|predicted| call.size_at(predicted.size));
        let Some(next) = predicted.and_then(|size| prediction.next(size)) else { break };
        let size = narrow(call.size_at(next));
        if prediction.sizes().any(|known| known == size) {
            break;
        }
        prediction = prediction.confirmed_by(size, |by_shapes| pieces(call, by_shapes, size))?;
    }
    Ok(prediction)
}

/// Runs a piece of a size dry, and a second one if the form has more than one.
fn pieces(call: &mut DryCall<'_>, by_shapes: bool, size: u32) -> Ran {
    let count = if call.items.is_some() { 2 } else { 1 };
    let mut failed = None;
    let step = |call: &mut DryCall<'_>, recording: &Recording| {
        failed = (0..count).find_map(|_| piece(call, recording, wide(size)));
    };
    let ran = dry::run_with(by_shapes, call, step, DryCall::take_back)?;
    match failed {
        None => Ok(ran),
        Some(failure) => Err(dry::failed(size, &failure)),
    }
}

fn piece(call: &mut DryCall<'_>, recording: &Recording, size: usize) -> Option<Failure> {
    recording.marked(c"piece", || dry::caught(|| call.run(size))).and_then(|ran| ran).err()
}

fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
