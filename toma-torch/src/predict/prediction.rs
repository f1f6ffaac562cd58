use std::sync::{Arc, Mutex};

use toma_core::predict::{DryCall, Piece, Predict, PredictedSize, Shown, print};
use toma_plan::{Growth, Judged, Rows, Unlike};
use toma_trace::{Place, Trace};

use super::correction::Correction;
use super::dry::Ran;
use super::room::Room;
use crate::error::{Error, ErrorKind};
use crate::ffi::DeviceId;
use crate::memory::Device;

/// Bytes that a step takes from one device at any size, predicted before it has run once.
///
/// Bytes are beyond those that were there before, and of one device; bytes that kernels of a GPU take for themselves
/// show only in a real run. Below 4 items predictions are less sure, because libraries run other kernels for single
/// items.
///
/// ```
/// use tch::{Kind, Tensor};
/// use toma_torch::{Device, Prediction, predict};
///
/// let device = Device::new(tch::Device::Cpu);
/// let step = |size| Tensor::ones([size as i64, 256], (Kind::Float, tch::Device::Cpu)).exp();
/// let prediction: Prediction = predict(&device, step)?;
/// assert_eq!(prediction.needs_bytes(512), 2 * 512 * 1024); // the ones and their exponentials
/// # Ok::<(), toma_torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Prediction {
    device: String,
    pub(super) id: DeviceId,
    place: Place,
    pub(super) traces: Vec<(u32, Trace)>,
    pub(super) growth: Growth,
    unknown: Vec<String>,
    /// Shared by this prediction and its clones.
    corrected: Arc<Correction>,
    /// The last answer, by its question.
    pub(super) last_served: Arc<Mutex<Option<Served>>>,
}

/// Question to a replay of the allocator: sizes, pieces and bytes, and its allocated and reserved bytes. The answer is
/// the size whose requests it has served.
pub(super) type Served = (([u64; 5], Option<[u64; 2]>), Option<usize>);

impl Prediction {
    pub(super) fn new(
        device: &Device,
        traces: Vec<(u32, Trace)>,
        mut unknown: Vec<String>,
    ) -> Result<Self, Error> {
        let id = DeviceId::of(device.device());
        let place = id.place();
        let growth = grown(&traces)?;
        let elsewhere: Vec<String> = growth.places().map(ToString::to_string).collect();
        if place != Place::HOST && !elsewhere.is_empty() && !elsewhere.contains(&place.to_string()) {
            let message =
                format!("predict: the step makes no memory on {place}, but on {}", elsewhere.join(", "));
            return Err(Error::new(ErrorKind::Other, message));
        }
        unknown.sort();
        unknown.dedup();
        let device = place.to_string();
        Ok(Self {
            device,
            id,
            place,
            traces,
            growth,
            unknown,
            corrected: Arc::default(),
            last_served: Arc::default(),
        })
    }

    /// Runs dry at one more size, and corrects the prediction by it; the flag of `run` requests a run by shapes alone.
    pub(super) fn confirmed_by(mut self, size: u32, run: impl FnOnce(bool) -> Ran) -> Result<Self, Error> {
        if size == 0 || self.sizes().any(|known| known == size) {
            return Ok(self);
        }
        // A small size takes no longer than those before, and its scratch bytes may lie on another line.
        let by_shapes = self.sizes().all(|known| known < size);
        let (trace, unknown) = run(by_shapes)?;
        self.traces.push((size, trace));
        self.growth = grown(&self.traces)?;
        self.last_served = Arc::default();
        self.unknown.extend(unknown);
        self.unknown.sort();
        self.unknown.dedup();
        Ok(self)
    }

    /// The most bytes that are live at once while the step runs with `size` items. On CUDA they are rounded up as by
    /// its allocator, if that has reserved nothing before.
    pub fn needs_bytes(&self, size: usize) -> u64 {
        let lines = || self.growth.needs_bytes(&self.place, wide(size));
        self.fresh(size).map_or_else(lines, |stats| stats.allocated.peak)
    }

    /// The most bytes that are live at once while `items` are processed in pieces of at most `size`, one after the
    /// other, and their values are held. Full pieces with a rest fit into so many bytes, and so do even ones.
    pub fn needs_bytes_for(&self, size: usize, items: usize) -> u64 {
        self.growth.needs_bytes_for(&self.place, wide(size), wide(items))
    }

    /// The most bytes if the values of all pieces are allocated from the first one on, as an output that they are
    /// copied to.
    pub(super) fn needs_bytes_into(&self, size: usize, items: usize) -> u64 {
        self.growth.needs_bytes_into(&self.place, wide(size), wide(items))
    }

    /// Bytes that each further piece of `size` items leaves allocated.
    pub(super) fn adds_bytes(&self, size: usize) -> u64 {
        let [_, adds] = self.growth.leaves(&self.place);
        u64::try_from(adds.at(wide(size))).unwrap_or_default()
    }

    /// The largest size that fits into so many free bytes, less a head-room of 1 %; `None` if one item does not. It is
    /// [`usize::MAX`] if bytes do not grow with the size.
    ///
    /// On CUDA the segments of the allocator have to fit, too, as if it had reserved none before.
    pub fn fits(&self, free_bytes: u64) -> Option<usize> {
        let room = Room::within(free_bytes);
        self.served(self.lives_in(room.usable_bytes)?, room, None)
    }

    /// The largest size whose live bytes fit into `bytes`.
    fn lives_in(&self, bytes: u64) -> Option<usize> {
        self.growth.largest(&self.place, bytes).map(narrow)
    }

    /// The largest size in which `items` can be processed piece by piece within so many free bytes, less the head-room;
    /// `None` if there is none. [`needs_bytes_for`](Self::needs_bytes_for) returns the bytes that it takes.
    pub fn fits_for(&self, items: usize, free_bytes: u64) -> Option<usize> {
        let room = Room::within(free_bytes);
        let lives = self.growth.largest_for(&self.place, room.usable_bytes, wide(items)).map(narrow)?;
        self.served(lives, room, Some(items))
    }

    /// The largest size for pieces of a loop, which may be copied to one output that is allocated from the first piece
    /// on. If not even one item leaves the head-room free, it is used as well, because any other start is larger.
    fn piece_of(&self, items: usize, free_bytes: u64, has_output: bool) -> Option<usize> {
        let of = if has_output { Growth::largest_into } else { Growth::largest_for };
        let largest = |room: Room| {
            let lives = of(&self.growth, &self.place, room.usable_bytes, wide(items)).map(narrow)?;
            self.served_now(lives, room, Some(items), has_output)
        };
        largest(Room::within(free_bytes)).or_else(|| largest(Room { usable_bytes: free_bytes, free_bytes }))
    }

    /// Operators whose results only data know: they answered 1, or made the largest possible shape.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Returns how the step treats the rows of its batch, which shows if pieces add up to the whole.
    ///
    /// # Errors
    /// When the forwards of the sizes touched different tensors, with the first of them.
    pub fn rows(&self) -> Result<Rows, Error> {
        self.judged().map(|judged| judged.rows().clone())
    }

    /// Returns [`rows`](Self::rows) with the program that they are of.
    pub(super) fn judged(&self) -> Result<Judged, Error> {
        let [(size, first), (other, second), ..] = &self.traces[..] else {
            unreachable!("two sizes at least")
        };
        Judged::of([(*size, first), (*other, second)]).map_err(|unlike| refused(&unlike))
    }

    /// Predicts the size that fits into so many bytes, all of which may be used except for the head-room.
    pub(super) fn within(&self, items: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
        let Some(items) = items else {
            let room = Room::within(free_bytes);
            let size = self.served_now(self.lives_in(room.usable_bytes)?, room, None, false)?;
            return Some(PredictedSize { size, needs_bytes: self.needs_bytes(size) });
        };
        let size = self.piece_of(items, free_bytes, false)?;
        Some(PredictedSize { size, needs_bytes: self.needs_bytes_for(size, items) })
    }

    /// Predicts the size of pieces after others, which leave nothing allocated.
    pub(super) fn within_rest(&self, left: usize, free_bytes: u64) -> Option<PredictedSize> {
        let room = Room::within(free_bytes);
        let size = self.served_rest(self.lives_in(room.usable_bytes)?.min(left), room, left)?;
        Some(PredictedSize { size, needs_bytes: self.needs_bytes(size) })
    }

    /// Predicts the size if the values of all pieces are allocated from the first one on.
    pub(super) fn within_into(&self, items: usize, free_bytes: u64) -> Option<PredictedSize> {
        let size = self.piece_of(items, free_bytes, true)?;
        Some(PredictedSize { size, needs_bytes: self.needs_bytes_into(size, items) })
    }

    /// Predicts the size that fits a call.
    pub(super) fn predict_call(&self, call: &DryCall<'_>) -> Option<PredictedSize> {
        match call.items {
            Some(items) => self.predict_rest(items, call.is_packed, call.free_bytes),
            None => self.predict(None, call.free_bytes),
        }
    }

    /// Bytes that a first piece of this size needs, and each of its items.
    pub(super) fn first_piece(&self, size: usize) -> Piece {
        let per_item = self.growth.line(&self.place, wide(size)).per_item;
        Piece {
            needs_bytes: self.needs_bytes(size),
            per_item_bytes: u64::try_from(per_item).unwrap_or_default(),
        }
    }

    /// Corrections learned from attempts.
    pub(super) fn corrected(&self) -> &Correction {
        &self.corrected
    }

    /// Takes over the corrections of the prediction before, if there was one.
    pub(super) fn renews(self, before: Option<&Self>) -> Self {
        let Some(before) = before else { return self };
        let largest = before.sizes().max().map_or(0, |size| usize::try_from(size).unwrap_or(usize::MAX));
        let compared = self.needs_bytes(largest).cmp(&before.needs_bytes(largest));
        let corrected = Arc::new(before.corrected.for_renewed(compared));
        Self { corrected, ..self }
    }

    /// Reason for predicting no size.
    pub(super) fn why_none(&self) -> &'static str {
        match self.corrected.usable(u64::MAX) {
            None => "predictions were wrong twice",
            Some(_) => "not even one item is predicted to fit",
        }
    }

    /// True if kernels take bytes on the device that no dry run sees, and no attempt has shown them yet.
    pub(super) fn hides(&self) -> bool {
        self.place != Place::HOST && !self.corrected.is_proven()
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn sizes(&self) -> impl Iterator<Item = u32> {
        self.traces.iter().map(|(size, _)| *size)
    }

    /// Name of the device; libtorch calls the host `cpu`.
    pub(super) fn device(&self) -> &str {
        if self.place == Place::HOST { "cpu" } else { &self.device }
    }
}

impl Predict for Prediction {
    fn predict(&self, items: Option<usize>, free_bytes: u64) -> Option<PredictedSize> {
        self.within(items, self.corrected.usable(free_bytes)?)
    }

    /// Predicts the size that fits at once if no size leaves room for the values that all pieces return: `range` holds
    /// none of them, and a form that holds them runs out of memory at any size.
    fn predict_dry(&self, call: &mut DryCall<'_>) -> Option<PredictedSize> {
        let (items, free_bytes) = (call.items, call.free_bytes);
        self.predict_call(call).or_else(|| {
            let size = self.predict(None, free_bytes)?.size.min(items?);
            Some(PredictedSize { size, needs_bytes: self.needs_bytes(size) })
        })
    }

    fn why_not(&self) -> Option<String> {
        Some(self.why_none().to_owned())
    }

    /// If pieces are packed by costs, a full one may be the last, when all others have left their values.
    fn predict_rest(&self, left: usize, is_packed: bool, free_bytes: u64) -> Option<PredictedSize> {
        let usable = self.corrected.usable(free_bytes)?;
        if is_packed { self.within_into(left, usable) } else { self.within(Some(left), usable) }
    }

    fn piece(&self, size: usize) -> Option<Piece> {
        Some(self.first_piece(size))
    }

    fn is_unproven(&self) -> bool {
        self.hides()
    }

    fn learn(&self, shown: Shown) {
        match shown {
            Shown::Took { size, is_first: true, peak_bytes } => {
                self.corrected.took(self.needs_bytes(size), peak_bytes);
            }
            Shown::RanOut => self.corrected.doubt(),
            Shown::Took { is_first: false, .. } | Shown::Ended { .. } => {}
            Shown::Failed { size, works, items, free_bytes } => {
                let needs = |size| self.needs_bytes_for(size, items.unwrap_or(size));
                let is_wrong =
                    self.predict(items, free_bytes).is_some_and(|predicted| predicted.size >= size);
                if is_wrong && self.corrected.failed(needs(size), works.map(needs), free_bytes) {
                    let device = self.device();
                    print(&format!(
                        "toma: a prediction for {device} was wrong twice: from here on sizes are measured"
                    ));
                }
            }
        }
    }
}

fn grown(traces: &[(u32, Trace)]) -> Result<Growth, Error> {
    let traces: Vec<_> = traces.iter().map(|(size, trace)| (*size, trace)).collect();
    Growth::fit(&traces).map_err(|unlike| refused(&unlike))
}

fn refused(unlike: &Unlike) -> Error {
    Error::new(ErrorKind::Unsupported, format!("predict: {unlike}"))
}

pub(super) fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn narrow(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use toma_core::predict::{Predict as _, Shown};
    use toma_trace::{Recorder, ThreadId, Trace};

    use super::{Device, DeviceId, Place, Prediction};

    /// A thousand bytes for each item, and five hundred more.
    fn trace(at: &Place, items: u64) -> Trace {
        let mut recorder = Recorder::new();
        for bytes in [1000 * items, 500] {
            recorder.birth(ThreadId(0), at, bytes).unwrap();
        }
        recorder.finish()
    }

    fn prediction(device: tch::Device) -> Prediction {
        let at = DeviceId::of(device).place();
        let traces = [4, 8].map(|size| (size, trace(&at, u64::from(size))));
        Prediction::new(&Device::new(device), traces.into(), Vec::new()).unwrap()
    }

    #[test]
    fn a_gpu_takes_what_is_not_seen_until_an_attempt_has_shown_it() {
        assert!(!prediction(tch::Device::Cpu).is_unproven());
        let gpu = prediction(tch::Device::Mps);
        assert!(gpu.is_unproven() && gpu.clone().is_unproven());
        let predicted = |free_bytes| gpu.predict(None, free_bytes).map(|predicted| predicted.size);
        assert_eq!(predicted(11_000), Some(10));
        gpu.learn(Shown::Took { size: 4, is_first: false, peak_bytes: Some(9000) });
        assert_eq!(
            (gpu.is_unproven(), predicted(11_000)),
            (true, Some(10)),
            "of a later piece less is known"
        );
        gpu.learn(Shown::Took { size: 4, is_first: true, peak_bytes: Some(6500) });
        assert_eq!((gpu.is_unproven(), predicted(11_000)), (false, Some(8)));
        assert_eq!(gpu.fits(11_000), Some(10), "the uncorrected prediction stays");
    }

    #[test]
    fn a_size_that_failed_beside_others_that_took_memory_is_not_wrong() {
        let prediction = prediction(tch::Device::Cpu);
        let predicted = || prediction.predict(None, 11_000).map(|predicted| predicted.size);
        let failed = |size, works, free_bytes| {
            prediction.learn(Shown::Failed { size, works, items: None, free_bytes });
        };
        failed(10, None, 9000);
        assert_eq!(predicted(), Some(10));
        failed(10, Some(5), 11_000);
        assert_eq!(predicted(), Some(5));
        failed(10, Some(5), 11_000);
        assert_eq!(predicted(), Some(5), "a failure at a size that is no longer predicted is not counted");
        failed(5, None, 11_000);
        assert_eq!(predicted(), None);
    }
}
