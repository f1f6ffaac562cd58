//! The first size of a call by a prediction, and the results that the prediction learns from.
//!
//! # Why
//!
//! A prediction learns from failed sizes when the call ends: it receives the smallest size that failed and the
//! largest that worked after it. Sizes that fail one after the other are one mistake.
//!
//! A prediction is wrong only if it would predict the same again from the bytes that the call could have used: the
//! free bytes after the failure, and those that earlier pieces still hold. Memory that others took during the call
//! corrects nothing.

use std::num::NonZeroUsize;

use super::Call;
use super::memory::CallMemory;
use crate::device;
use crate::engine::machine::Took;
use crate::engine::meter::Measured;
use crate::engine::prediction::Prediction;
use crate::observe::{Answer, Shortfall, report};
use crate::predict::{Asks, DryCall, Followed, Predict, PredictedSize, Shown};

impl<'a> Call<'a> {
    /// Predicts the first size; `None` if no size is predicted to fit.
    #[inline(never)]
    pub(super) fn predict(&mut self, asks: &mut Asks<'a, '_>) -> Option<usize> {
        let CallMemory { origin, user, .. } = &self.memory;
        let device = self.memory.device.filter(|_| !self.machine.is_done())?;
        let free_bytes = device::unpromised(device, device.read().ok()?).free_bytes;
        let items = self.report.length().map(|_| self.machine.whole());
        let mut dry_call = DryCall {
            name: self.report.name(),
            origin,
            user: *user,
            items,
            is_packed: self.machine.is_packed(),
            free_bytes,
            device,
            cuts: &self.machine,
            body: asks.body.take().map(|body| body as _),
            begun: Vec::new(),
            kept: None,
        };
        let fits = asks.predict.predict_dry(&mut dry_call);
        let kept = dry_call.kept.take();
        let is_followed = fits.is_some() || kept.is_some();
        let predict = kept.map_or(Followed::Given(asks.predict), Followed::Kept);
        if fits.is_none_or(|fits| fits.size < self.machine.least()) {
            asks.lacks = self.lacks(&*predict, free_bytes);
        }
        let nothing = PredictedSize { size: 0, needs_bytes: 0 };
        let PredictedSize { size, needs_bytes } = fits.map_or(nothing, |fits| self.within(&*predict, fits));
        let predicted = report::Predicted { size, needs_bytes, free_bytes };
        match fits {
            Some(_) => self.report.predicts(predicted),
            None => self.report.predicts_nothing(predict.why_not()),
        }
        is_followed.then(|| self.follow(Prediction::new(predict, device, predicted, items)))?
    }

    /// Limits a prediction to the largest size that the call may use, with the bytes of that size.
    fn within(&self, predict: &dyn Predict, predicted: PredictedSize) -> PredictedSize {
        let size = predicted.size.min(self.machine.sizes.cap);
        let piece = if size < predicted.size { predict.piece(size) } else { None };
        PredictedSize { size, needs_bytes: piece.map_or(predicted.needs_bytes, |piece| piece.needs_bytes) }
    }

    /// Lets the call follow a prediction. Returns the size to begin with, if any is predicted to fit.
    fn follow(&mut self, prediction: Prediction<'a>) -> Option<usize> {
        let first = Some(prediction.first()).filter(|&size| size > 0);
        let stages = self.stages.as_mut()?;
        if prediction.explores {
            // The bytes of this piece are measured then, even if the policy measures none.
            (stages.measures, stages.meters) = (true, self.memory.device);
        }
        stages.prediction = Some(Box::new(prediction));
        first
    }

    /// Lets the prediction learn from an attempt that succeeded at a predicted size. It then predicts the next size.
    #[inline(never)]
    pub(super) fn shows(&mut self, took: &mut Took) {
        let Some(stages) = &mut self.stages else { return };
        let Some(prediction) = &mut stages.prediction else { return };
        let Measured { peak_bytes, available_bytes, leaned, .. } = took.measured.unwrap_or_default();
        // Predictions are for work that recomputes nothing.
        let peak_bytes = peak_bytes.filter(|_| leaned.repeated.is_zero());
        prediction.worked(self.machine.size());
        let explored = std::mem::take(&mut prediction.explores);
        if peak_bytes.is_none() && !explored {
            return;
        }
        let shown =
            Shown::Took { size: self.machine.size(), is_first: self.machine.position == 0, peak_bytes };
        let (left, is_packed) = (self.machine.left_behind(), self.machine.is_packed());
        let fits = prediction.took(shown, left, is_packed, available_bytes);
        let fits = fits.and_then(NonZeroUsize::new);
        match &mut took.measured {
            Some(measured) if self.needs.memory => measured.predicted = fits,
            Some(measured) if explored => {
                measured.explored = fits;
                stages.has_explored(self.needs);
            }
            _ => {}
        }
    }

    /// Lets a prediction choose the next size instead of the policy, after a predicted size has failed and the
    /// prediction has learned from that.
    pub(super) fn predicts_smaller(&mut self) -> Option<Answer> {
        if self.agrees() {
            return None;
        }
        let device = self.memory.device?;
        let prediction = self.stages.as_ref()?.prediction.as_ref()?;
        let free_bytes = device::unpromised(device, device.read().ok()?).free_bytes;
        let predicted = prediction.smaller(self.machine.left(), free_bytes)?;
        self.machine.shrinks_to(predicted)
    }

    /// Shortfall of the smallest size, if it is predicted not to fit.
    fn lacks(&self, predict: &dyn Predict, free_bytes: u64) -> Option<Shortfall> {
        let size = self.machine.least();
        let piece = predict.piece(size)?;
        (free_bytes < piece.needs_bytes).then_some(Shortfall {
            size,
            needs_bytes: piece.needs_bytes,
            per_item_bytes: Some(piece.per_item_bytes),
            free_bytes,
        })
    }
}
