//! The prediction of a whole step: of `forward`, `backward` and `backward_step`.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tch::Tensor;
use toma_core::execute::With;
use toma_core::memory::MemorySource as _;
use toma_core::predict::{Foreseen, Piece, Predict, Rehearsal, Shown, bytes_for_people, now};

use super::dry;
use super::judging::{Case, Splitting};
use super::kept::{Found, Kept, Store};
use super::key::{Key, Purpose, Site};
use super::lent;
use super::making::{predict_from, sizes_of, wide};
use super::prediction::Prediction;
use super::said::{say, say_once};
use crate::Device;
use crate::error::{Error, ErrorKind};
use crate::ffi::Recording;

/// Runs the body dry before the first attempt, and starts with the largest size that fits: the option
/// `predict` of every form and attribute.
///
/// The body runs at 4 and at 8 items, or at fewer where there are fewer, and nothing of the user's is
/// read or changed; see [`dry_run`](crate::dry_run). All these pieces are the first of the data: where items
/// differ in what they take, let the largest be the first. What the body does besides is taken back by
/// [`before_retry`](toma_core::execute::With::before_retry), or left out where
/// [`is_dry`](toma_core::predict::is_dry) says so. An optimizer's `step` within the body must be left out there: state
/// that it makes would be dry. [`backward_step`](crate::backward_step) leaves it out by itself.
///
/// What is predicted is kept for each line of code that calls, [`key`](toma_core::execute::With::key), device and
/// shape of the data. Only the forms for tensors and `chunked` know the shape; others need it in the key. Two nets that
/// one line runs are best told apart by keys, too. Else what is kept for one serves the other until it fails, or takes
/// far fewer bytes: then it is predicted anew. Where the body cannot run dry, sizes are found as without:
/// so it is where it is asynchronous, and where `device` is of no memory that libtorch knows.
///
/// What is tried corrects it. A size that was said to fit and failed is not begun with again, and the body is run
/// dry once more, by forms for tensors in the same call; where it is wrong again, sizes are found as without. Where
/// nothing is predicted, [`Report::unforeseen`](toma_core::report::Report::unforeseen) says why. Bytes that pieces are measured to take
/// beyond it count from then on. On a GPU the first piece is a quarter where more than half of what is free would
/// be taken: only a real run shows what kernels take there.
///
/// Dry runs are few. Beyond the first 16 shapes of a line they take at most 5 % of the time of its calls: else what is
/// known of larger data serves as a bound, or sizes are found as without.
///
/// With [`Forward`](crate::Forward) and [`Backward`](crate::Backward), a call is split only if the dry run shows that its
/// pieces make up the whole; else it runs whole, and a bound such as `max` that would split it is refused. One line on
/// standard error says why, and another names an operator that cannot run dry.
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
    fn foresee(&self, _: Option<usize>, _: u64) -> Option<Foreseen> {
        None
    }

    fn runs_dry(&self) -> bool {
        true
    }

    fn foresee_dry(&self, call: &mut Rehearsal<'_>) -> Option<Foreseen> {
        lent::foresee(call)
    }
}

static PREDICTIONS: Store<Key, Site> = Store::new();

/// How much a call is to work off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) items: usize,
    /// Bytes that are taken once all is done, and stay.
    pub(crate) room_bytes: u64,
}

/// The prediction of one call of a form.
#[derive(Debug)]
pub(crate) struct StepPrediction {
    key: Key,
    kept: Arc<Kept>,
    /// Made by this call, since what was kept is wrong about it: it may be of another net.
    renewed: OnceLock<Arc<Kept>>,
    work: Work,
    /// What is kept is of other data, and no bound for these.
    is_no_bound: bool,
    /// The dry runs of this call have made it.
    is_new: bool,
    begun: Instant,
}

impl StepPrediction {
    /// Takes the prediction that is kept for calls like this one, or makes one.
    ///
    /// `step` does with so many items what an attempt does; what it returns is held as what pieces leave is. `undo`
    /// takes back what it did besides.
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
        let say_why = |error: &Error| say_once(&key.site, "why", &format!("not predicted: {error}"));
        let rank = |known: &Key, kept: &Kept| {
            let serves = known.site == key.site && kept.prediction.is_some();
            serves.then(|| (!key.is_within(known), known.extent()))
        };
        let (rank, kept) = PREDICTIONS.of((&key, &key.site), rank, find, say_why);
        let is_no_bound = rank.is_some_and(|(is_no_bound, _)| is_no_bound);
        Self { key, kept, renewed: OnceLock::new(), work, is_no_bound, is_new, begun: now() }
    }

    /// Predicts anew by dry runs of this call where a size that was said to fit has failed, since what is kept may be of
    /// another net.
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

    /// The judgement on splitting this call.
    pub(crate) fn splitting(&self, case: Case) -> Splitting<'_> {
        Splitting::new(self.site().clone(), case, &self.kept.program, self.is_new)
    }

    /// The form, which starts with the size that is predicted.
    pub(crate) fn lead<'a, P, K, B>(this: Option<&'a Self>, form: With<'a, P, K, B>) -> With<'a, P, K, B> {
        match this {
            Some(this) => form.predict(this),
            None => form.without_dry_runs(),
        }
    }

    /// Whether all items are said to fit.
    pub(crate) fn says_whole_fits(&self) -> bool {
        let free = Device::new(self.site().device).read().map(|read| read.free_bytes);
        free.is_ok_and(|free| self.fits(free).is_some_and(|said| said.size >= self.work.items))
    }

    /// What fits, and the room beside it where that is possible.
    fn fits(&self, free_bytes: u64) -> Option<Foreseen> {
        let usable = self.prediction()?.corrected().usable(free_bytes)?;
        let beside_room = self.within(usable.saturating_sub(self.work.room_bytes));
        beside_room.or_else(|| self.within(usable))
    }

    fn within(&self, usable_bytes: u64) -> Option<Foreseen> {
        let (prediction, items) = (self.prediction()?, self.work.items);
        let foreseen = prediction.within(Some(items), usable_bytes)?;
        if self.site().purpose != Purpose::Output || foreseen.size == items {
            return Some(foreseen);
        }
        // A piece's rows stand beside the whole.
        prediction.within_into(items, usable_bytes)
    }

    /// Whether pieces of this size are copied to one output.
    fn fills_output(&self, size: usize) -> bool {
        self.site().purpose == Purpose::Output && size < self.work.items
    }

    /// Bytes that a first piece was said to need: it makes the whole output.
    fn said_of_first(&self, prediction: &Prediction, size: usize) -> u64 {
        let piece = prediction.needs_bytes(size);
        if !self.fills_output(size) {
            return piece;
        }
        let [rows, output] = [size, self.work.items].map(|items| prediction.adds_bytes(items));
        piece.max(rows.saturating_add(output))
    }

    /// Bytes that all pieces of this size were said to need.
    fn said_of_all(&self, prediction: &Prediction, size: usize) -> u64 {
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

    /// Says it where a single item needs more than there is.
    fn say_least(&self, free_bytes: u64) {
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
        say_once(self.site(), "least", &text);
    }
}

impl Predict for StepPrediction {
    fn foresee(&self, _: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
        let foreseen = if self.measures() { None } else { self.fits(free_bytes) };
        if foreseen.is_none() && !self.measures() {
            self.say_least(free_bytes);
        }
        foreseen
    }

    /// What a piece makes beyond the first does not stay: outputs have their place, and gradients theirs.
    fn foresee_rest(&self, left: usize, _: bool, free_bytes: u64) -> Option<Foreseen> {
        if self.measures() {
            return None;
        }
        let prediction = self.prediction()?;
        let usable = prediction.corrected().usable(free_bytes)?;
        prediction.within_rest(left, usable)
    }

    fn foresee_smaller(&self, left: usize, free_bytes: u64) -> Option<Foreseen> {
        self.renewed.get().filter(|_| !self.measures())?;
        if left == self.work.items {
            self.fits(free_bytes)
        } else {
            self.foresee_rest(left, false, free_bytes)
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
                corrected.took(self.said_of_first(prediction, size), peak_bytes);
            }
            Shown::Took { is_first: false, .. } | Shown::Ended { .. } => {}
            Shown::Failed { size, works, free_bytes, .. } => {
                let is_wrong = self.fits(free_bytes).is_some_and(|said| said.size >= size);
                let said = |size| self.said_of_all(prediction, size);
                if is_wrong && corrected.failed(said(size), works.map(said), free_bytes) {
                    say(self.site(), "what was predicted was wrong twice: from here on sizes are measured");
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

/// From two sizes, and confirmed at the one that it says fits; or why it could not be.
fn predicted(
    key: &Key,
    items: usize,
    mut step: impl FnMut(&Recording, usize) -> Result<Tensor, Error>,
    mut undo: impl FnMut(usize),
) -> Result<Found, Error> {
    let mut step = |recording: &Recording, items: usize| {
        dry::caught(|| step(recording, items)).unwrap_or_else(|failure| Err(failure.into()))
    };
    let device = Device::new(key.site.device);
    let mut prediction = predict_from(&device, key.sizes, &mut step, &mut undo)?;
    for _ in 0..prediction.rounds() {
        let fits = device.read().ok().and_then(|now| prediction.within(Some(items), now.free_bytes));
        let Some(Foreseen { size, .. }) = fits else { break };
        match prediction.clone().confirmed(size, &mut step, &mut undo) {
            Ok(confirmed) => prediction = confirmed,
            // Below the sizes that were run, the step may call other operators; that says nothing of larger ones.
            Err(_) if size < wide(key.sizes[0]) => break,
            Err(error) if error.kind() == ErrorKind::OutOfMemory => return Err(error),
            Err(error) => return Ok((prediction, Some(error))),
        }
    }
    Ok((prediction, None))
}
