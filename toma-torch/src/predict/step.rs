//! Prediction of a whole step: of `forward`, `backward` and `backward_step`.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tch::Tensor;
use toma_core::execute::With;
use toma_core::memory::MemorySource as _;
use toma_core::predict::{DryCall, Piece, Predict, PredictedSize, Shown, bytes_for_people, now};

use super::dry;
use super::dry_call;
use super::judging::{Case, Splitting};
use super::kept::{Found, Kept, Store};
use super::key::{Key, Purpose, Site};
use super::making::{predict_from, sizes_of, wide};
use super::prediction::Prediction;
use super::printed::{print, print_once};
use super::runs::SEEDS;
use crate::Device;
use crate::error::{Error, ErrorKind};
use crate::ffi::Recording;

/// Runs the body dry before the first attempt, and starts with the largest size that fits: a value for the option
/// `predict` of every form and attribute.
///
/// The body runs at 4 and at 8 items, or at fewer if there are fewer, and nothing of the user's is read or changed; see
/// [`dry_run`](crate::dry_run). All these pieces are the first of the data: if items differ in their memory, let the
/// largest be the first. Side effects of the body are taken back by
/// [`before_retry`](toma_core::execute::With::before_retry), or left out where [`is_dry`](toma_core::predict::is_dry)
/// is true. An optimizer's `step` within the body must be left out there, because it would make state without memory.
/// [`backward_step`](crate::backward_step) leaves it out by itself.
///
/// Predictions are kept for each call site, [`key`](toma_core::execute::With::key), device and shape of the data. Only
/// the forms for tensors and `chunked` know the shape; others need it in the key. Two nets that one line runs are best
/// distinguished by keys, too. Otherwise the prediction for one serves the other until it fails, or takes far fewer
/// bytes: then it is renewed. Where the body cannot run dry, sizes are found as without a prediction. This is so for an
/// asynchronous body, and if libtorch does not know the memory of `device`.
///
/// Attempts correct the prediction. A size that was predicted to fit and failed is not begun with again, and the body
/// is run dry once more, by forms for tensors in the same call; if that is wrong again, sizes are found as without a
/// prediction. Where nothing is predicted, [`Report::unpredicted`](toma_core::report::Report::unpredicted) has the
/// reason. Bytes that pieces are measured to take beyond the prediction count from then on. On a GPU the first piece is
/// a quarter if more than half of the free bytes would be taken, because only a real run shows the bytes that kernels
/// take there.
///
/// Dry runs are few. Beyond the first 16 shapes of a line they take at most 5 % of the time of its calls. After that a
/// prediction for larger data serves as a bound, or sizes are found as without a prediction.
///
/// With [`Forward`](crate::Forward) and [`Backward`](crate::Backward), a call is split only if the dry run shows that
/// its pieces make up the whole; otherwise it runs whole, and a bound such as `max` that would split it is refused. One
/// line on standard error gives the reason, and another names an operator that cannot run dry.
///
/// ```
/// use tch::{Device, Kind, Tensor};
/// use toma_core::{NoCache, execute, report};
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
    fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
        None
    }

    fn runs_dry(&self) -> bool {
        true
    }

    fn predict_dry(&self, call: &mut DryCall<'_>) -> Option<PredictedSize> {
        dry_call::predict(call)
    }
}

static PREDICTIONS: Store<Key, Site> = Store::new();

/// Amount of work of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) items: usize,
    /// Bytes that are allocated once all is done, and stay.
    pub(crate) room_bytes: u64,
}

/// The prediction of one call of a form.
#[derive(Debug)]
pub(crate) struct StepPrediction {
    key: Key,
    kept: Arc<Kept>,
    /// Made by this call, if the kept prediction is wrong about it: that may be of another net.
    renewed: OnceLock<Arc<Kept>>,
    work: Work,
    /// True if the kept prediction is of other data, and no bound for these.
    is_no_bound: bool,
    /// True if the dry runs of this call have made the prediction.
    is_new: bool,
    begun: Instant,
}

impl StepPrediction {
    /// Takes the prediction that is kept for calls like this one, or makes one.
    ///
    /// `step` runs so many items as an attempt does. The tensor that `step` returns is kept alive, as the outputs of
    /// the pieces are. `undo` takes back its side effects.
    pub(crate) fn of(
        key: Key,
        work: Work,
        step: impl FnMut(&Recording, usize) -> Result<Tensor, Error>,
        undo: impl FnMut(usize),
    ) -> Self {
        let key = key.of_sizes(sizes_of(work.items));
        let mut is_new = false;
        let find = || {
            is_new = true;
            predicted(&key, work.items, step, undo)
        };
        let print_why = |error: &Error| print_once(&key.site, "why", &format!("not predicted: {error}"));
        let rank = |known: &Key, kept: &Kept| {
            let serves = known.site == key.site && kept.prediction.is_some();
            serves.then(|| (!key.is_within(known), known.extent()))
        };
        let (rank, kept) = PREDICTIONS.of((&key, &key.site), rank, find, print_why);
        let is_no_bound = rank.is_some_and(|(is_no_bound, _)| is_no_bound);
        Self { key, kept, renewed: OnceLock::new(), work, is_no_bound, is_new, begun: now() }
    }

    /// Renews the prediction by dry runs of this call if a size that was predicted to fit has failed, since the kept
    /// one may be of another net.
    pub(crate) fn renew(
        &self,
        step: impl FnMut(&Recording, usize) -> Result<Tensor, Error>,
        undo: impl FnMut(usize),
    ) {
        let Kept { prediction: Some(before), pace, .. } = &*self.kept else { return };
        let may = !self.is_new && self.renewed.get().is_none() && pace.allows();
        if !may || !before.corrected().renews() {
            return;
        }
        let find = || predicted(&self.key, self.work.items, step, undo);
        let kept = PREDICTIONS.renewed(&self.key, (Some(before), Arc::clone(pace)), find, |_| ());
        let _ = self.renewed.set(kept);
    }

    fn kept(&self) -> &Kept {
        self.renewed.get().unwrap_or(&self.kept)
    }

    fn site(&self) -> &Site {
        &self.key.site
    }

    fn measures(&self) -> bool {
        self.is_no_bound || self.kept().why.is_some()
    }

    /// Returns the judgement on splitting this call.
    pub(crate) fn splitting(&self, case: Case) -> Splitting<'_> {
        Splitting::new(self.site().clone(), case, &self.kept.program, self.is_new)
    }

    /// Returns the form with the predicted size as its first.
    pub(crate) fn lead<'a, P, K, B>(this: Option<&'a Self>, form: With<'a, P, K, B>) -> With<'a, P, K, B> {
        match this {
            Some(this) => form.predict(this),
            None => form.without_dry_runs(),
        }
    }

    /// Returns true if all items are predicted to fit.
    pub(crate) fn fits_whole(&self) -> bool {
        let free = Device::new(self.site().device).read().map(|read| read.free_bytes);
        free.is_ok_and(|free| self.fits(free).is_some_and(|predicted| predicted.size >= self.work.items))
    }

    /// Returns the largest predicted size for the free bytes. It leaves `room_bytes` of the work free if any size does.
    fn fits(&self, free_bytes: u64) -> Option<PredictedSize> {
        let usable = self.prediction()?.corrected().usable(free_bytes)?;
        let beside_room = self.within(usable.saturating_sub(self.work.room_bytes));
        beside_room.or_else(|| self.within(usable))
    }

    fn within(&self, usable_bytes: u64) -> Option<PredictedSize> {
        let (prediction, items) = (self.prediction()?, self.work.items);
        let predicted = prediction.within(Some(items), usable_bytes)?;
        if self.site().purpose != Purpose::Output || predicted.size == items {
            return Some(predicted);
        }
        // A piece's rows are in memory in addition to the whole output.
        prediction.within_into(items, usable_bytes)
    }

    /// Returns true if pieces of this size are copied to one output.
    fn fills_output(&self, size: usize) -> bool {
        self.site().purpose == Purpose::Output && size < self.work.items
    }

    /// Predicted bytes of a first piece, which also allocates the whole output.
    fn first_piece_bytes(&self, prediction: &Prediction, size: usize) -> u64 {
        let piece = prediction.needs_bytes(size);
        if !self.fills_output(size) {
            return piece;
        }
        let [rows, output] = [size, self.work.items].map(|items| prediction.adds_bytes(items));
        piece.max(rows.saturating_add(output))
    }

    /// Predicted bytes of all pieces of this size.
    fn all_pieces_bytes(&self, prediction: &Prediction, size: usize) -> u64 {
        let items = self.work.items;
        if self.fills_output(size) {
            prediction.needs_bytes_into(size, items)
        } else {
            prediction.needs_bytes_for(size, items)
        }
    }

    fn prediction(&self) -> Option<&Prediction> {
        self.kept().prediction.as_ref()
    }

    /// Prints a line if a single item needs more than the free bytes.
    fn print_least(&self, free_bytes: u64) {
        let Some(prediction) = self.prediction() else { return };
        let Piece { needs_bytes, per_item_bytes } = prediction.first_piece(1);
        if needs_bytes <= free_bytes {
            return;
        }
        let fixed_bytes = needs_bytes.saturating_sub(per_item_bytes);
        let [needs, fixed, per_item, free] =
            [needs_bytes, fixed_bytes, per_item_bytes, free_bytes].map(bytes_for_people);
        let text =
            format!("one item needs {needs} ({fixed} in every piece, {per_item} per item), {free} free");
        print_once(self.site(), "least", &text);
    }
}

impl Predict for StepPrediction {
    fn predict(&self, _: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
        let predicted = if self.measures() { None } else { self.fits(free_bytes) };
        if predicted.is_none() && !self.measures() {
            self.print_least(free_bytes);
        }
        predicted
    }

    /// Pieces after the first leave nothing allocated: output and gradients exist already.
    fn predict_rest(&self, left: usize, _: bool, free_bytes: u64) -> Option<PredictedSize> {
        if self.measures() {
            return None;
        }
        let prediction = self.prediction()?;
        let usable = prediction.corrected().usable(free_bytes)?;
        prediction.within_rest(left, usable)
    }

    fn predict_smaller(&self, left: usize, free_bytes: u64) -> Option<PredictedSize> {
        self.renewed.get().filter(|_| !self.measures())?;
        if left == self.work.items {
            self.fits(free_bytes)
        } else {
            self.predict_rest(left, false, free_bytes)
        }
    }

    fn why_not(&self) -> Option<String> {
        let other =
            "only data of other shapes were predicted, and dry runs would take too much of the line's time";
        Some(if self.is_no_bound { other.to_owned() } else { self.kept().why_none() })
    }

    fn piece(&self, size: usize) -> Option<Piece> {
        self.prediction().filter(|_| !self.measures()).map(|prediction| prediction.first_piece(size))
    }

    fn is_unproven(&self) -> bool {
        self.prediction().is_some_and(Prediction::hides)
    }

    fn learn(&self, shown: Shown) {
        let Some(prediction) = self.prediction() else { return };
        let corrected = prediction.corrected();
        match shown {
            _ if self.measures() => {}
            Shown::RanOut => corrected.doubt(),
            Shown::Took { size, is_first: true, peak_bytes } => {
                corrected.took(self.first_piece_bytes(prediction, size), peak_bytes);
            }
            Shown::Took { is_first: false, .. } | Shown::Ended { .. } => {}
            Shown::Failed { size, works, free_bytes, .. } => {
                let is_wrong = self.fits(free_bytes).is_some_and(|predicted| predicted.size >= size);
                let predicted = |size| self.all_pieces_bytes(prediction, size);
                if is_wrong && corrected.failed(predicted(size), works.map(predicted), free_bytes) {
                    print(self.site(), "predictions were wrong twice: from here on sizes are measured");
                }
            }
        }
    }
}

impl Drop for StepPrediction {
    fn drop(&mut self) {
        self.kept.pace.called(now().saturating_duration_since(self.begun));
    }
}

/// Predicts from dry runs. As in a [judgement](super::runs::dry_run), a body that seems to have seeded random numbers
/// runs again.
fn predicted(
    key: &Key,
    items: usize,
    mut step: impl FnMut(&Recording, usize) -> Result<Tensor, Error>,
    mut undo: impl FnMut(usize),
) -> Result<Found, Error> {
    let has_seeded = Cell::new(false);
    let mut step = |recording: &Recording, items: usize| {
        let outcome = dry::caught(|| step(recording, items)).unwrap_or_else(|failure| Err(failure.into()));
        has_seeded.set(recording.has_seeded());
        if has_seeded.get() { Err(Error::new(ErrorKind::Unsupported, SEEDS.to_owned())) } else { outcome }
    };
    let first = predicted_once(key, items, &mut step, &mut undo);
    if has_seeded.get() { predicted_once(key, items, &mut step, &mut undo) } else { first }
}

/// Predicts from two sizes, and confirms at the size that fits, or returns the error that prevented the confirmation.
fn predicted_once(
    key: &Key,
    items: usize,
    step: &mut impl FnMut(&Recording, usize) -> Result<Tensor, Error>,
    undo: &mut impl FnMut(usize),
) -> Result<Found, Error> {
    let device = Device::new(key.site.device);
    dry::takes_kept_size();
    let mut prediction = predict_from(&device, key.sizes, step, undo)?;
    for _ in 0..prediction.rounds() {
        let fits = device.read().ok().and_then(|now| prediction.within(Some(items), now.free_bytes));
        let Some(size) = fits.and_then(|fits| prediction.next(fits.size)) else { break };
        match prediction.clone().confirmed(size, step, undo) {
            Ok(confirmed) => prediction = confirmed,
            // Below the sizes that were run, the step may call other operators, so it is no evidence of larger sizes.
            Err(_) if size < wide(key.sizes[0]) => break,
            Err(error) if error.kind() == ErrorKind::OutOfMemory => return Err(error),
            Err(error) => return Ok((prediction, Some(error))),
        }
    }
    let kept = "a checkpoint region keeps its size, so all items are tried first, by its plan";
    let is_kept = dry::takes_kept_size();
    Ok((prediction, is_kept.then(|| Error::new(ErrorKind::Unsupported, kept.to_owned()))))
}
