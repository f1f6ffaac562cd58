//! The body of any form, lent by its call to be run dry.

use std::sync::Arc;

use toma_core::classify::Failure;
use toma_core::predict::{Foreseen, Predict as _, Rehearsal, say};
use toma_trace::Trace;

use super::dry;
use super::kept::Predictions;
use super::prediction::{Prediction, SIZES};
use crate::Device;
use crate::error::{Error, ErrorKind};
use crate::ffi::Recording;

/// By the line that calls, the key, the memory, and the shape of the data. `None`: the body cannot run dry.
static PREDICTIONS: Predictions<u64, Option<Arc<Prediction>>> = Predictions::new();

/// The size that fits now, by what is kept of such calls or found by dry runs. `None` where there is nothing to
/// choose, and where the body cannot run dry, which is said once.
pub(super) fn foresee(call: &mut Rehearsal<'_>) -> Option<Foreseen> {
    let sizes = call.sizes(usize::try_from(SIZES[1]).unwrap_or(usize::MAX))?;
    let key = call.key();
    let prediction = PREDICTIONS.of(&key).unwrap_or_else(|| {
        let prediction = predicted(call, sizes);
        if let Err(error) = &prediction {
            say(&format!("toma: {}: not predicted: {error}", call.name()));
        }
        let prediction = prediction.ok().map(Arc::new);
        PREDICTIONS.keep(key, prediction.clone());
        prediction
    })?;
    prediction.foresee(call.items(), call.free_bytes())
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
    let (mut traces, mut unknown) = (Vec::new(), Vec::new());
    for size in sizes {
        let (trace, names) = pieces(call, false, size)?;
        traces.push((wide(size), trace));
        unknown.extend(names);
    }
    let mut prediction = Prediction::new(&device, traces, unknown)?;
    if let Some(foreseen) = prediction.foresee(call.items(), call.free_bytes()) {
        let size = call.size_at(foreseen.size);
        if !prediction.knows(wide(size)) {
            let (trace, unknown) = pieces(call, true, size)?;
            prediction.correct(wide(size), trace, unknown)?;
        }
    }
    Ok(prediction)
}

/// Runs a piece of a size dry, and another one after it where the form has more than one.
fn pieces(call: &mut Rehearsal<'_>, by_shapes: bool, size: usize) -> Result<(Trace, Vec<String>), Error> {
    let count = if call.items().is_some() { 2 } else { 1 };
    let mut failed = None;
    let step = |call: &mut Rehearsal<'_>, recording: &Recording| {
        failed = (0..count).find_map(|_| piece(call, recording, size));
    };
    let ran = dry::run_with(by_shapes, call, step, Rehearsal::take_back)?;
    match failed {
        None => Ok(ran),
        Some(Failure { message, .. }) => {
            Err(Error::new(ErrorKind::Other, format!("dry run of {size} items: {message}")))
        }
    }
}

fn piece(call: &mut Rehearsal<'_>, recording: &Recording, size: usize) -> Option<Failure> {
    recording.marked(c"piece", || call.run(size)).err()
}

fn wide(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}
