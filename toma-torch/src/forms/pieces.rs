//! Parts that `forward` and `backward` share: pieces of data that are cut, judged and run.

use std::any::type_name;
use std::ffi::CStr;
use std::ops::Range;
use std::panic::Location;

use tch::Tensor;
use toma_core::Outcome;
use toma_core::execute::With;
use toma_core::predict::is_dry;

use crate::error::Error;
use crate::ffi::Recording;
use crate::predict::{Case, Program, Purpose, Run, Site, Splitting, StepPrediction};
use crate::tensor::TensorData;

/// The scope in which the data of a piece are cut: [`toma_plan::DATA`].
const DATA: &CStr = c"data";

/// The scope in which the result of a piece is taken: [`toma_plan::RESULT`].
const RESULT: &CStr = c"result";

pub(super) fn site_of<P, K, B, F>(
    form: &With<'_, P, K, B>,
    caller: &'static Location<'static>,
    device: tch::Device,
    purpose: Purpose,
    _: &F,
) -> Site {
    Site::new(caller, device, purpose, form.user_key(), type_name::<F>())
}

/// Makes the case for a judgement. Without dry runs, a loss that the caller declares is trusted.
pub(super) fn case_of<P, K, B>(
    form: &With<'_, P, K, B>,
    data: &impl TensorData,
    items: usize,
    purpose: Purpose,
) -> Case {
    let needs_judgement = !is_dry() && (purpose == Purpose::Found || form.asks_dry());
    let mut integers = Vec::new();
    if needs_judgement && purpose != Purpose::Output {
        data.integers(&mut integers);
    }
    Case { items, largest: form.largest(), can_run_dry: form.can_run_dry(), needs_judgement, integers }
}

pub(super) fn splitting_of<'a>(
    prediction: Option<&'a StepPrediction>,
    alone: &'a Program,
    site: Site,
    case: Case,
) -> Splitting<'a> {
    match prediction {
        Some(prediction) => prediction.splitting(case),
        None => Splitting::new(site, case, alone, false),
    }
}

/// Decides on splitting before the first attempt. A verdict of another call refuses nothing: if it would, and the whole
/// is not predicted to fit, the body is judged anew.
pub(super) fn decide<R, S>(
    splitting: &Splitting<'_>,
    prediction: Option<&StepPrediction>,
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) where
    R: Outcome<S, Value = Tensor, Of<Tensor> = R>,
{
    if prediction.is_some_and(|prediction| splitting.is_in_doubt() && !prediction.fits_whole()) {
        splitting.judge(run, undo);
    }
    splitting.decide();
}

/// Takes back a piece that has failed. If its size was predicted to fit, the body may be another than the predicted
/// one, so the prediction is renewed.
pub(super) fn after_failure(
    prediction: Option<&StepPrediction>,
    step: impl FnMut(&Recording, usize) -> Result<Tensor, Error>,
    take_back: &impl Fn(Range<usize>),
    piece: Range<usize>,
) {
    let start = piece.start;
    take_back(piece);
    if let Some(prediction) = prediction {
        prediction.renew(step, |items| take_back(start..start + items));
    }
}

/// Cuts the data of a piece, in a scope of its own if it is recorded.
pub(super) fn cut<T>(recording: Option<&Recording>, cut: impl FnOnce() -> T) -> T {
    match recording {
        Some(recording) => recording.marked(DATA, cut),
        None => cut(),
    }
}

/// Returns the result of a piece; in a recording, a scope marks its tensor.
pub(super) fn result(recording: Option<&Recording>, tensor: Tensor) -> Tensor {
    match recording.filter(|_| tensor.defined()) {
        Some(recording) => recording.marked(RESULT, || tensor.alias()),
        None => tensor,
    }
}
