//! The body of any form, lent by its call to be run dry.

use std::sync::Arc;

use toma_core::classify::Failure;
use toma_core::predict::{Foreseen, Piece, Predict, Rehearsal, Shown, say};

use super::dry;
use super::making::{Ran, SIZES, from_runs};
use super::pace::Pace;
use super::prediction::Prediction;
use super::recent::Recent;
use crate::Device;
use crate::error::{Error, ErrorKind};
use crate::ffi::Recording;

/// By the line that calls, the key, the memory, and the shape of the data.
static PREDICTIONS: Recent<u64, Arc<Kept>> = Recent::new();

/// By the same but the shape.
static PACES: Recent<u64, Arc<Pace>> = Recent::new();

/// What is known of calls alike.
#[derive(Debug)]
struct Kept {
    /// `None`: the body cannot run dry, or must not for the time it takes.
    prediction: Option<Prediction>,
    pace: Arc<Pace>,
}

impl Predict for Kept {
    fn foresee(&self, items: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
        self.prediction.as_ref()?.foresee(items, free_bytes)
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

/// The size that fits now, by what is kept of such calls or found by dry runs. `None` where there is nothing to
/// choose, where the body cannot run dry, which is said once, and where dry runs would take too long.
pub(super) fn foresee(call: &mut Rehearsal<'_>) -> Option<Foreseen> {
    let sizes = call.sizes(wide(SIZES[1]))?;
    let known = PREDICTIONS.of(&call.key());
    let before = known.as_ref().and_then(|kept| kept.prediction.as_ref());
    let is_renewed = before.is_some_and(|before| before.corrected().renews());
    let kept = match &known {
        Some(kept) if !is_renewed => Arc::clone(kept),
        _ => made(call, sizes, before),
    };
    call.follow(Arc::<Kept>::clone(&kept));
    kept.foresee(call.items(), call.free_bytes())
}

/// Makes a prediction and keeps it, also that there is none; instead of the one before, if that was wrong.
fn made(call: &mut Rehearsal<'_>, sizes: [usize; 2], before: Option<&Prediction>) -> Arc<Kept> {
    let pace = Pace::of(&PACES, &call.site());
    if before.is_none() && !pace.allows() {
        return Arc::new(Kept { prediction: None, pace });
    }
    let prediction = pace.runs_dry(|| predicted(call, sizes));
    let say_why = |error: &Error| say(&format!("toma: {}: not predicted: {error}", call.name()));
    let prediction = prediction.inspect_err(say_why);
    let lacks_memory = prediction.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfMemory);
    let prediction = prediction.ok().map(|prediction| prediction.renews(before));
    let kept = Arc::new(Kept { prediction, pace });
    if lacks_memory {
        // The next call may have more.
        return kept;
    }
    PREDICTIONS.renew(call.key(), Arc::clone(&kept));
    kept
}

/// From two sizes, and confirmed at the one that it says fits.
fn predicted(call: &mut Rehearsal<'_>, sizes: [usize; 2]) -> Result<Prediction, Error> {
    let unsupported = |message: String| Error::new(ErrorKind::Unsupported, message);
    if !call.can_run() {
        return Err(unsupported("an asynchronous body cannot run dry".to_owned()));
    }
    let name = call.device().name();
    let device = Device::named(name)
        .ok_or_else(|| unsupported(format!("memory `{name}` is of no device that libtorch knows")))?;
    let prediction = from_runs(&device, sizes.map(narrow), |by_shapes, size| pieces(call, by_shapes, size))?;
    let Some(foreseen) = prediction.foresee(call.items(), call.free_bytes()) else { return Ok(prediction) };
    let size = narrow(call.size_at(foreseen.size));
    prediction.confirmed_by(size, |by_shapes| pieces(call, by_shapes, size))
}

/// Runs a piece of a size dry, and another one after it where the form has more than one.
fn pieces(call: &mut Rehearsal<'_>, by_shapes: bool, size: u32) -> Ran {
    let count = if call.items().is_some() { 2 } else { 1 };
    let mut failed = None;
    let step = |call: &mut Rehearsal<'_>, recording: &Recording| {
        failed = (0..count).find_map(|_| piece(call, recording, wide(size)));
    };
    let ran = dry::run_with(by_shapes, call, step, Rehearsal::take_back)?;
    match failed {
        None => Ok(ran),
        Some(failure) => Err(dry::failed(size, &failure)),
    }
}

fn piece(call: &mut Rehearsal<'_>, recording: &Recording, size: usize) -> Option<Failure> {
    recording.marked(c"piece", || dry::caught(|| call.run(size))).and_then(|ran| ran).err()
}

fn narrow(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn wide(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
