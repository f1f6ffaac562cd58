//! The body of a form, run dry where nothing is known of its sizes yet.

use std::sync::Arc;
use std::time::Instant;

use tch::Tensor;
use toma_core::execute::With;
use toma_core::memory::MemorySource as _;
use toma_core::predict::{Foreseen, Piece, Predict, Rehearsal, Shown, bytes_for_people, now};

use super::dry;
use super::key::{Key, Purpose, Site};
use super::making::{SIZES, predict_from};
use super::pace::Pace;
use super::prediction::Prediction;
use super::recent::Recent;
use super::rehearsal;
use super::split::Split;
use crate::Device;
use crate::error::{Error, ErrorKind};

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
/// shape of the data: two nets that one line runs on data of one shape need keys. Only the forms for tensors and
/// `chunked` know the shape; others need it in the key. Where the body cannot run dry, sizes are found as without:
/// so it is where it is asynchronous, and where `device` is of no memory that libtorch knows.
///
/// What is tried corrects it. A size that was said to fit and failed is not begun with again, and the body is run
/// dry once more; where it is wrong again, sizes are found as without. Bytes that pieces are measured to take
/// beyond it count from then on. On a GPU the first piece is a quarter where more than half of what is free would
/// be taken: only a real run shows what kernels take there.
///
/// Dry runs are few. Beyond the first 16 shapes of a line they take at most 5 % of the time of its calls: else what is
/// known of larger data serves as a bound, or sizes are found as without.
///
/// A step of training whose pieces do not add up to the whole is never split. What a user should know of
/// this is a line on standard error, once for each prediction: an operator that couples rows, batch norm
/// within pieces, an operator that cannot run dry.
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
        rehearsal::foresee(call)
    }
}

static PREDICTIONS: Recent<Key, Made> = Recent::new();

static PACES: Recent<Site, Arc<Pace>> = Recent::new();

/// What was said of a site.
static SAID: Recent<(Site, &str), ()> = Recent::new();

/// `None`: the body cannot run dry.
type Made = Option<Arc<Kept>>;

#[derive(Debug)]
struct Kept {
    prediction: Prediction,
    split: Split,
    /// No size could be confirmed: it only tells whether pieces add up.
    measures: bool,
    pace: Arc<Pace>,
}

/// How much a call is to work off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) items: usize,
    /// Bytes that are taken once all is done, and stay.
    pub(crate) room_bytes: u64,
}

/// What is predicted of one call of a form.
#[derive(Debug)]
pub(crate) struct Foresight {
    site: Site,
    kept: Arc<Kept>,
    work: Work,
    /// Sizes are measured: what is kept is of other data, and only tells whether pieces add up.
    measures: bool,
    begun: Instant,
}

impl Foresight {
    /// Takes the prediction that is kept for calls like this one, or makes one; `None` where the body cannot run
    /// dry. A single item is as small as it gets.
    ///
    /// `step` does with so many items what an attempt does; what it returns is held as what pieces leave is. `undo`
    /// takes back what it did besides.
    pub(crate) fn of(
        key: Key,
        work: Work,
        step: impl FnMut(usize) -> Result<Tensor, Error>,
        undo: impl FnMut(usize),
    ) -> Option<Self> {
        if work.items < 2 {
            return None;
        }
        let key = key.of_sizes(sizes_of(work.items));
        let known = PREDICTIONS.of(&key);
        let is_renewed = matches!(&known, Some(Some(kept)) if kept.prediction.corrected().renews());
        let (kept, measures) = match known {
            Some(made) if !is_renewed => (made?, false),
            None if !Pace::of(&PACES, &key.site).allows() => stand_in(&key)?,
            before => (made(&key, before.flatten().as_deref(), work.items, step, undo)?, false),
        };
        let measures = measures || kept.measures;
        Some(Self { site: key.site, kept, work, measures, begun: now() })
    }

    /// The form, which starts with what is foreseen, and leaves whole what must not be split.
    pub(crate) fn lead<'a, P, K, B>(this: Option<&'a Self>, form: With<'a, P, K, B>) -> With<'a, P, K, B> {
        let Some(this) = this else { return form.without_dry_runs() };
        let form = form.predict(this);
        if matches!(this.kept.split, Split::Never(_)) { form.unsplit(this.work.items) } else { form }
    }

    /// What fits, and the room beside it where that is possible.
    fn fits(&self, free_bytes: u64) -> Option<Foreseen> {
        let usable = self.kept.prediction.corrected().usable(free_bytes)?;
        let beside_room = self.within(usable.saturating_sub(self.work.room_bytes));
        beside_room.or_else(|| self.within(usable))
    }

    fn within(&self, usable_bytes: u64) -> Option<Foreseen> {
        let (prediction, items) = (&self.kept.prediction, self.work.items);
        let foreseen = prediction.within(Some(items), usable_bytes)?;
        if self.site.purpose != Purpose::Output || foreseen.size == items {
            return Some(foreseen);
        }
        // A piece's rows stand beside the whole, as if one more had gone before.
        let size = prediction.piece_of(items, usable_bytes, true)?;
        let needs_bytes = prediction.needs_bytes_in_pieces(size, items.div_ceil(size).saturating_add(1));
        Some(Foreseen { size, needs_bytes })
    }

    /// A piece's rows that stand beside the whole.
    fn rows_beside(&self, size: usize) -> u64 {
        let in_pieces = self.site.purpose == Purpose::Output && size < self.work.items;
        if in_pieces { self.rows(size) } else { 0 }
    }

    fn rows(&self, size: usize) -> u64 {
        let held = |pieces| self.kept.prediction.needs_bytes_in_pieces(size, pieces);
        held(3).saturating_sub(held(2))
    }

    /// What a first piece was said to need: it makes the whole output.
    fn said_of_first(&self, size: usize) -> u64 {
        let piece = self.kept.prediction.needs_bytes(size);
        let rows = self.rows_beside(size);
        if rows == 0 { piece } else { piece.max(rows.saturating_add(self.rows(self.work.items))) }
    }

    /// Whether the first piece will be a part of what fits, to learn from it.
    fn explores(&self, said: Foreseen, free_bytes: u64) -> bool {
        self.is_unproven() && said.needs_bytes > free_bytes / 2
    }

    /// What all pieces of this size were said to need.
    fn said_of_all(&self, size: usize) -> u64 {
        let pieces = self.work.items.div_ceil(size);
        let all = self.kept.prediction.needs_bytes_in_pieces(size, pieces);
        all.saturating_add(self.rows_beside(size))
    }

    fn say_split(&self) {
        let text = match &self.kept.split {
            Split::Exact => return,
            Split::Statistics => "batch norm takes the statistics of each piece".to_owned(),
            Split::Never(why) => format!("not split, because {why}"),
        };
        say_once(&self.site, "split", &text);
    }

    /// Says it where a single item needs more than there is.
    fn say_least(&self, free_bytes: u64) {
        let Piece { needs_bytes, per_item_bytes } = self.kept.prediction.first_piece(1);
        if needs_bytes <= free_bytes {
            return;
        }
        let fixed_bytes = needs_bytes.saturating_sub(per_item_bytes);
        let [needs, fixed, per_item, free] =
            [needs_bytes, fixed_bytes, per_item_bytes, free_bytes].map(bytes_for_people);
        let text =
            format!("one item needs {needs} ({fixed} in every piece, {per_item} per item), {free} free");
        say_once(&self.site, "least", &text);
    }
}

impl Predict for Foresight {
    fn foresee(&self, _: Option<usize>, free_bytes: u64) -> Option<Foreseen> {
        let foreseen = if self.measures { None } else { self.fits(free_bytes) };
        let is_whole = |said: Foreseen| said.size == self.work.items && !self.explores(said, free_bytes);
        if !foreseen.is_some_and(is_whole) {
            self.say_split();
        }
        if foreseen.is_none() && !self.measures {
            self.say_least(free_bytes);
        }
        foreseen
    }

    /// What a piece makes beyond the first does not stay: outputs have their place, and gradients theirs.
    fn foresee_rest(&self, left: usize, free_bytes: u64) -> Option<Foreseen> {
        if self.measures {
            return None;
        }
        let usable = self.kept.prediction.corrected().usable(free_bytes)?;
        let Foreseen { size, needs_bytes } = self.kept.prediction.within(None, usable)?;
        Some(Foreseen { size: size.min(left), needs_bytes })
    }

    fn piece(&self, size: usize) -> Option<Piece> {
        (!self.measures).then(|| self.kept.prediction.first_piece(size))
    }

    fn is_unproven(&self) -> bool {
        self.kept.prediction.hides()
    }

    fn learn(&self, shown: Shown) {
        let corrected = self.kept.prediction.corrected();
        match shown {
            _ if self.measures => {}
            Shown::Took { size, is_first: true, peak_bytes } => {
                corrected.took(self.said_of_first(size), peak_bytes);
            }
            Shown::Took { is_first: false, .. } | Shown::Ended { .. } => {}
            Shown::Failed { size, works, free_bytes, .. } => {
                let is_wrong = self.fits(free_bytes).is_some_and(|said| said.size >= size);
                let works = works.map(|size| self.said_of_all(size));
                if is_wrong && corrected.failed(self.said_of_all(size), works, free_bytes) {
                    say(&self.site, "what was predicted was wrong twice: from here on sizes are measured");
                }
            }
        }
    }
}

impl Drop for Foresight {
    fn drop(&mut self) {
        self.kept.pace.called(now().saturating_duration_since(self.begun));
    }
}

/// However many predictions the site has.
fn say_once(site: &Site, about: &'static str, text: &str) {
    let said = (site.clone(), about);
    if SAID.of(&said).is_none() {
        SAID.keep(said, ());
        say(site, text);
    }
}

fn say(site: &Site, text: &str) {
    toma_core::predict::say(&format!("toma: {}: {text}", site.caller));
}

/// Serves where one more dry run would take too long: what is kept of larger data, as a bound; else what is kept of
/// other data of the site, for what it tells of pieces, and sizes are measured.
fn stand_in(key: &Key) -> Option<(Arc<Kept>, bool)> {
    let rank = |known: &Key, made: &Made| {
        let serves = known.site == key.site && made.is_some();
        serves.then(|| (!key.is_within(known), known.extent()))
    };
    let ((measures, _), made) = PREDICTIONS.nearest(rank)?;
    Some((made?, measures))
}

/// Makes a prediction and keeps it, also that there is none; instead of the one before, if that was wrong.
fn made(
    key: &Key,
    before: Option<&Kept>,
    items: usize,
    step: impl FnMut(usize) -> Result<Tensor, Error>,
    undo: impl FnMut(usize),
) -> Made {
    let pace = Pace::of(&PACES, &key.site);
    let prediction = pace.runs_dry(|| predicted(key, items, step, undo));
    let say_why = |error: &Error| say_once(&key.site, "why", &format!("not predicted: {error}"));
    let prediction = prediction.inspect_err(say_why);
    if prediction.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfMemory) {
        // The next call may have more.
        return None;
    }
    let made = prediction.ok().map(|(prediction, unconfirmed)| {
        let measures = unconfirmed.as_ref().inspect(|error| say_why(error)).is_some();
        let split = Split::of(&prediction, key.site.purpose);
        let prediction = prediction.renews(before.map(|before| &before.prediction));
        Arc::new(Kept { prediction, split, measures, pace })
    });
    PREDICTIONS.renew(key.clone(), made.clone());
    made
}

/// The sizes to run dry: no single item where there are three, because libtorch chooses other operators for one.
fn sizes_of(items: usize) -> [u32; 2] {
    match u32::try_from(items).unwrap_or(u32::MAX) {
        most if SIZES[1] <= most => SIZES,
        3 => [2, 3],
        most => [most / 2, most],
    }
}

/// From two sizes, and confirmed at the one that it says fits; or why it could not be.
fn predicted(
    key: &Key,
    items: usize,
    mut step: impl FnMut(usize) -> Result<Tensor, Error>,
    mut undo: impl FnMut(usize),
) -> Result<(Prediction, Option<Error>), Error> {
    let mut step = |items: usize| dry::caught(|| step(items)).unwrap_or_else(|failure| Err(failure.into()));
    let device = Device::new(key.site.device);
    let prediction = predict_from(&device, key.sizes, &mut step, &mut undo)?;
    let fits = device.read().ok().and_then(|now| prediction.within(Some(items), now.free_bytes));
    let Some(Foreseen { size, .. }) = fits else { return Ok((prediction, None)) };
    match prediction.clone().confirmed(size, &mut step, &mut undo) {
        Ok(confirmed) => Ok((confirmed, None)),
        // Below the sizes that were run, the step may call other operators; that says nothing of larger ones.
        Err(_) if size < wide(key.sizes[0]) => Ok((prediction, None)),
        Err(error) if error.kind() == ErrorKind::OutOfMemory => Err(error),
        Err(error) => Ok((prediction, Some(error))),
    }
}

fn wide(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
