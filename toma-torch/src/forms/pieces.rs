//! Parts that `forward` and `backward` share: pieces of data that are cut, judged and run.

use std::any::type_name;
use std::ffi::CStr;
use std::ops::{ControlFlow, Range};
use std::panic::Location;

use tch::Tensor;
use toma_core::chunk::{Chunk, Chunked};
use toma_core::execute::With;
use toma_core::predict::is_dry;

use crate::error::{Error, ErrorKind};
use crate::ffi::Recording;
use crate::predict::{Case, Key, Program, Purpose, Run, Site, Splitting, StepPrediction, TensorOutcome};
use crate::tensor::TensorData;

/// The scope in which the data of a piece are cut: [`toma_plan::DATA`].
const DATA: &CStr = c"data";

/// The scope in which the result of a piece is taken: [`toma_plan::RESULT`].
const RESULT: &CStr = c"result";

/// The pieces of a call, with the properties that their prediction and their judgement need.
pub(super) struct Pieces {
    site: Site,
    case: Case,
    /// True if the call asks for a prediction that can be made.
    predicts: bool,
}

impl Pieces {
    pub(super) fn of<P, K, B, F>(
        form: &With<'_, P, K, B>,
        caller: &'static Location<'static>,
        (data, items): (&impl TensorData, usize),
        purpose: Purpose,
        _: &F,
    ) -> Self {
        let site = Site::new(caller, data.device(), purpose, form.user_key(), type_name::<F>());
        let predicts = form.asks_dry() && form.can_run_dry() && items > 1;
        Self { site, case: case_of(form, data, items, purpose), predicts }
    }

    /// Returns the key of the prediction, if one can be made.
    pub(super) fn key(&self, data: &impl TensorData) -> Option<Key> {
        self.predicts.then(|| Key::new(self.site.clone(), data))
    }

    /// True if dry runs decide on splitting.
    pub(super) fn is_judged(&self) -> bool {
        self.case.needs_judgement && self.case.can_run_dry
    }

    /// Returns the judgement on splitting, by the program of the prediction, or `alone`.
    pub(super) fn splitting<'a>(
        self,
        prediction: Option<&'a StepPrediction>,
        alone: &'a Program,
    ) -> Splitting<'a> {
        match prediction {
            Some(prediction) => prediction.splitting(self.case),
            None => Splitting::new(self.site, self.case, alone, false),
        }
    }
}

/// Makes the case for a judgement. Without dry runs, a loss that the caller declares is trusted.
fn case_of<P, K, B>(
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

/// Decides on splitting before the first attempt. A verdict of another call refuses nothing: if it would, and the whole
/// is not predicted to fit, the body is judged anew.
pub(super) fn decide<R: TensorOutcome<S>, S>(
    splitting: &Splitting<'_>,
    prediction: Option<&StepPrediction>,
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
) {
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

/// Attempts a piece, or all items if they must not be split. `add` returns the result so far with the tensor of the
/// items that ran.
pub(super) fn attempt<R: TensorOutcome<S>, S>(
    splitting: &Splitting<'_>,
    (so_far, piece): (&Tensor, Range<usize>),
    run: &mut impl Run<R>,
    undo: &impl Fn(Range<usize>),
    add: impl FnOnce(Tensor, &Range<usize>) -> Tensor,
) -> R {
    if splitting.is_done(piece.start) {
        return R::of(so_far.shallow_clone());
    }
    let (outcome, piece) = splitting.attempt(piece, run, undo);
    then(outcome, |tensor| {
        let so_far = add(tensor, &piece);
        splitting.ran(&piece);
        so_far
    })
}

/// Runs the body on a piece of the data.
pub(super) fn run_piece<D, C, R, S>(
    data: &mut D,
    body: &mut impl FnMut(Chunk<'_, D, C>) -> R,
    recording: Option<&Recording>,
    piece: Range<usize>,
) -> R
where
    D: Chunked<C>,
    R: TensorOutcome<S>,
{
    let mut held = cut(recording, || data.hold(0, piece));
    let outcome = body(D::lend(&mut held));
    then(outcome, |tensor| result(recording, tensor))
}

/// Cuts the data of a piece, in a scope of its own if it is recorded.
fn cut<T>(recording: Option<&Recording>, cut: impl FnOnce() -> T) -> T {
    match recording {
        Some(recording) => recording.marked(DATA, cut),
        None => cut(),
    }
}

/// Returns the result of a piece; in a recording, a scope marks its tensor.
fn result(recording: Option<&Recording>, tensor: Tensor) -> Tensor {
    match recording.filter(|_| tensor.defined()) {
        Some(recording) => recording.marked(RESULT, || tensor.alias()),
        None => tensor,
    }
}

/// Returns the outcome with another tensor, which `next` makes of its own.
pub(super) fn then<R: TensorOutcome<S>, S>(outcome: R, next: impl FnOnce(Tensor) -> Tensor) -> R {
    match outcome.branch::<Tensor>() {
        ControlFlow::Continue(tensor) => R::of(next(tensor)),
        ControlFlow::Break(error) => error,
    }
}

/// Returns the tensor of a dry attempt.
pub(super) fn tensor_of<R: TensorOutcome<S>, S>(outcome: R) -> Result<Tensor, Error> {
    match outcome.branch::<Tensor>() {
        ControlFlow::Continue(tensor) => Ok(tensor),
        ControlFlow::Break(_) => Err(Error::new(ErrorKind::Other, "the body returned an error".to_owned())),
    }
}
