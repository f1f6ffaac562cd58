//! The body of a form, run dry where nothing is known of its sizes yet.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe, Location};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use tch::Tensor;
use toma_core::classify::{Class, Failure, classify_panic};
use toma_core::execute::With;
use toma_core::memory::MemorySource as _;
use toma_core::predict::{Foreseen, Predict};
use toma_plan::Coupling;

use super::prediction::{Prediction, SIZES, predict_from};
use crate::Device;
use crate::error::{Error, ErrorKind};
use crate::tensor::TensorData;

/// Runs the body dry before the first attempt, and starts with the largest size that fits: the option
/// `predict` of the forms for tensors.
///
/// The body runs at 4 and at 8 items, or at fewer where there are fewer, and nothing of the user's is
/// read or changed; see [`dry_run`](crate::dry_run). What is predicted is kept for each line of code that
/// calls, [`key`](toma_core::execute::With::key), device and shape of the data: two nets that one line trains
/// on data of one shape need keys. Where the body cannot run dry, sizes are found as without. Forms that are not
/// for tensors take a [`Prediction`] instead.
///
/// A step of training whose pieces do not add up to the whole is never split. What a user should know of
/// this is a line on standard error, once for each prediction: an operator that couples rows, batch norm
/// within pieces, an operator that cannot run dry.
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
        let size = self.piece_of(items, free_bytes, false)?.min(items);
        Some(Foreseen { size, needs_bytes: self.needs_bytes_in_pieces(size, items.div_ceil(size)) })
    }
}

impl Key {
    pub(crate) fn new(
        caller: &'static Location<'static>,
        user: u64,
        data: &impl TensorData,
        purpose: Purpose,
    ) -> Self {
        let mut shapes = Vec::new();
        data.describe(&mut |kind, sizes| shapes.push((kind, sizes.iter().skip(1).copied().collect())));
        Self { caller, device: data.device(), shapes, purpose, user, sizes: SIZES, has_gradients: false }
    }

    /// Steps that make gradients take more than those that add to them.
    pub(crate) fn with_gradients_of(self, variables: &[Tensor]) -> Self {
        let has_gradients = variables.first().is_some_and(|first| first.grad().defined());
        Self { has_gradients, ..self }
    }
}

/// Predictions that are kept; beyond them the one made longest ago goes.
const KEPT: usize = 256;

static PREDICTIONS: Mutex<VecDeque<(Key, Made)>> = Mutex::new(VecDeque::new());

/// `None`: the body cannot run dry.
type Made = Option<Arc<Kept>>;

#[derive(Debug)]
struct Kept {
    prediction: Prediction,
    split: Split,
    said: AtomicBool,
}

/// What becomes of a step in pieces.
#[derive(Debug)]
enum Split {
    /// Pieces add up to the whole.
    Exact,
    /// Batch norm takes the statistics of each piece.
    Statistics,
    /// They do not add up, and why.
    Never(String),
}

/// What a form does with the pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// Fills one output, which is held from the first piece on.
    Output,
    /// Adds gradients of a mean, of a sum, or of a mean over what is counted.
    Mean,
    Sum,
    Counted,
}

/// What a prediction is of: the calling line, the device, and the data without the batch's extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    caller: &'static Location<'static>,
    device: tch::Device,
    shapes: Vec<(tch::Kind, Vec<i64>)>,
    purpose: Purpose,
    user: u64,
    /// A prediction from the sizes of a short call is not good enough for a long one.
    sizes: [u32; 2],
    /// Whether there are gradients before the step.
    has_gradients: bool,
}

/// What is predicted of one call of a form.
#[derive(Debug)]
pub(crate) struct Foresight {
    key: Key,
    kept: Arc<Kept>,
    items: usize,
}

impl Foresight {
    /// Takes the prediction that is kept for calls like this one, or makes one; `None` where the body cannot run
    /// dry. A single item is as small as it gets.
    ///
    /// `step` does with so many items what an attempt does; what it returns is held as what pieces leave is.
    pub(crate) fn of(
        key: Key,
        items: usize,
        step: impl FnMut(usize) -> Result<Tensor, Error>,
    ) -> Option<Self> {
        if items < 2 {
            return None;
        }
        let key = Key { sizes: sizes_of(items), ..key };
        let kept = kept(&key).unwrap_or_else(|| made(&key, items, step))?;
        Some(Self { key, kept, items })
    }

    /// The form, which starts with what is foreseen, and leaves whole what must not be split.
    pub(crate) fn lead<'a, P, K, B>(this: Option<&'a Self>, form: With<'a, P, K, B>) -> With<'a, P, K, B> {
        let Some(this) = this else { return form };
        let form = form.predict(this);
        if matches!(this.kept.split, Split::Never(_)) { form.unsplit(this.items) } else { form }
    }

    fn fits(&self, free_bytes: u64) -> Option<Foreseen> {
        let (prediction, items) = (&self.kept.prediction, self.items);
        let foreseen = prediction.foresee(Some(items), free_bytes)?;
        if self.key.purpose != Purpose::Output || foreseen.size == items {
            return Some(foreseen);
        }
        // A piece's rows stand beside the whole, as if one more had gone before.
        let size = prediction.piece_of(items, free_bytes, true)?;
        let needs_bytes = prediction.needs_bytes_in_pieces(size, items.div_ceil(size).saturating_add(1));
        Some(Foreseen { size, needs_bytes })
    }

    fn say_once(&self) {
        let text = match &self.kept.split {
            Split::Exact => return,
            Split::Statistics => "batch norm takes the statistics of each piece".to_owned(),
            Split::Never(why) => format!("not split, because {why}"),
        };
        if !self.kept.said.swap(true, Relaxed) {
            say(&self.key, &text);
        }
    }
}

impl Predict for Foresight {
    fn foresee(&self, _: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
        let foreseen = self.fits(free_bytes);
        if foreseen.is_none_or(|foreseen| foreseen.size < self.items) {
            self.say_once();
        }
        foreseen
    }
}

fn say(key: &Key, text: &str) {
    toma_core::predict::say(&format!("toma: {}: {text}", key.caller));
}

fn kept(key: &Key) -> Option<Made> {
    let predictions = PREDICTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    predictions.iter().find(|(known, _)| known == key).map(|(_, prediction)| prediction.clone())
}

/// Makes a prediction and keeps it, also that there is none.
fn made(key: &Key, items: usize, step: impl FnMut(usize) -> Result<Tensor, Error>) -> Made {
    let prediction = predicted(key, items, step);
    let prediction = prediction.inspect_err(|error| say(key, &format!("not predicted: {error}")));
    if prediction.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfMemory) {
        // The next call may have more.
        return None;
    }
    let made = prediction.ok().map(|prediction| {
        let split = split(&prediction, key.purpose);
        Arc::new(Kept { prediction, split, said: AtomicBool::new(false) })
    });
    let mut predictions = PREDICTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if predictions.len() == KEPT {
        predictions.pop_front();
    }
    predictions.push_back((key.clone(), made.clone()));
    made
}

/// What pieces come to, as far as the dry runs show it: where they do not compare, pieces are taken to add up.
fn split(prediction: &Prediction, purpose: Purpose) -> Split {
    if purpose == Purpose::Output {
        return Split::Exact;
    }
    let Ok(rows) = prediction.rows() else { return Split::Exact };
    let is_counted = purpose == Purpose::Counted;
    let coupled = rows.coupled.filter(|coupled| !(is_counted && coupled.coupling == Coupling::MaskedMean));
    match coupled {
        Some(coupled) => Split::Never(coupled.to_string()),
        None if purpose == Purpose::Sum && rows.adds_constant.is_some() => {
            Split::Never("a constant is added to the sum over the rows".to_owned())
        }
        None if !rows.batch_statistics.is_empty() => Split::Statistics,
        None => Split::Exact,
    }
}

/// The sizes to run dry: no single item where there are three, because libtorch chooses other operators for one.
fn sizes_of(items: usize) -> [u32; 2] {
    match u32::try_from(items).unwrap_or(u32::MAX) {
        most if SIZES[1] <= most => SIZES,
        3 => [2, 3],
        most => [most / 2, most],
    }
}

/// From two sizes, and confirmed at the one that it says fits.
fn predicted(
    key: &Key,
    items: usize,
    mut step: impl FnMut(usize) -> Result<Tensor, Error>,
) -> Result<Prediction, Error> {
    let device = Device::new(key.device);
    let mut step = |items: usize| caught(|| step(items));
    let prediction = predict_from(&device, key.sizes, &mut step)?;
    let fits = device.read().ok().and_then(|now| prediction.foresee(Some(items), now.free_bytes));
    match fits {
        // Below the sizes that were run, the step may call other operators; that says nothing of larger ones.
        Some(Foreseen { size, .. }) if size < wide(key.sizes[0]) => {
            Ok(prediction.clone().confirm(size, step).unwrap_or(prediction))
        }
        Some(foreseen) => prediction.confirm(foreseen.size, step),
        None => Ok(prediction),
    }
}

/// A panic in a dry run is no prediction: what is wrong with the body, a real attempt says.
fn caught<R>(step: impl FnOnce() -> Result<R, Error>) -> Result<R, Error> {
    let outcome = panic::catch_unwind(AssertUnwindSafe(step));
    outcome.unwrap_or_else(|payload| {
        let Failure { class, message, .. } = classify_panic(&*payload);
        let is_out_of_memory = class == Class::OutOfMemory;
        let kind = if is_out_of_memory { ErrorKind::OutOfMemory } else { ErrorKind::Other };
        Err(Error::new(kind, format!("the body panicked: {}", message.lines().next().unwrap_or_default())))
    })
}

fn wide(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
