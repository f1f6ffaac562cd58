//! What a prediction says of a call, and what the call shows of the prediction.

use std::num::NonZeroUsize;

use super::Call;
use crate::classify::Class;
use crate::engine::attempt::Attempt;
use crate::engine::forecast::Forecast;
use crate::engine::machine::{Failed, Took};
use crate::engine::meter::Measured;
use crate::observe::Shortfall;
use crate::predict::{self, Predict, Shown};

impl<'a> Call<'a> {
    /// The first size, where it is known what fits.
    #[inline(never)]
    pub(super) fn foresee(&mut self, predict: &'a dyn Predict) -> Option<usize> {
        let (items, device) = (self.report.length().map(|_| self.machine.whole()), self.memory.device?);
        let said = predict::foresee(predict, device, items)?;
        self.report.foresees(said);
        let forecast = Forecast::new(predict, device, said, items);
        let first = forecast.first();
        if let Some(extras) = &mut self.extras {
            // What the piece takes is worth knowing then, whatever the policy.
            if forecast.explores {
                (extras.measures, extras.meters) = (true, Some(device));
            }
            extras.forecast = Some(Box::new(forecast));
        }
        Some(first)
    }

    /// An attempt succeeded at a size that was foreseen: the prediction learns, and says what fits now.
    #[inline(never)]
    pub(super) fn shows(&mut self, took: &mut Took) {
        let Some(extras) = &mut self.extras else { return };
        let Some(forecast) = &mut extras.forecast else { return };
        let Measured { peak_bytes, available_bytes, .. } = took.measured.unwrap_or_default();
        forecast.worked(self.machine.size());
        let explored = std::mem::take(&mut forecast.explores);
        if peak_bytes.is_none() && !explored {
            return;
        }
        let shown =
            Shown::Took { size: self.machine.size(), is_first: self.machine.position == 0, peak_bytes };
        let fits = forecast.took(shown, self.machine.left_behind(), available_bytes);
        if let Some(measured) = took.measured.as_mut().filter(|_| self.needs.memory) {
            measured.foreseen = fits.and_then(NonZeroUsize::new);
        } else if explored {
            (extras.measures, extras.meters) = (self.needs.anything(), None);
            self.has_explored(fits);
        }
    }

    /// The rest in the size that fits, as far as is known now.
    fn has_explored(&mut self, fits: Option<usize>) {
        let from = self.machine.step;
        let Some(fits) = fits.filter(|&fits| fits > from) else { return };
        self.machine.starts_at(fits);
        self.step_changes(from, self.machine.step);
    }

    /// An attempt failed: what is said of its size is wrong, if the size and not something else is to blame.
    pub(super) fn contradicts(&mut self, attempt: &Attempt, failed: &Failed, size: usize) {
        let is_blamed = failed.class == Class::OutOfMemory && !self.machine.fallback;
        let Some(extras) = &mut self.extras else { return };
        let Some(forecast) = &mut extras.forecast else { return };
        if forecast.explores && !self.needs.memory {
            (extras.measures, extras.meters) = (self.needs.anything(), None);
        }
        if attempt.injected {
            forecast.is_injected();
        } else if is_blamed && !attempt.hold.is_contended() {
            forecast.ran_out(size, failed.now.map(|now| now.free_bytes));
        }
    }

    /// What the smallest size lacks, by a prediction that was asked for a first size.
    pub(super) fn lacks(&self, predict: &dyn Predict) -> Option<Shortfall> {
        if self.report.remembered().is_some() {
            return None;
        }
        let size = self.machine.least();
        let piece = predict.piece(size)?;
        let free_bytes = self.memory.read()?.free_bytes;
        (free_bytes < piece.needs_bytes).then_some(Shortfall {
            size,
            needs_bytes: piece.needs_bytes,
            per_item_bytes: Some(piece.per_item_bytes),
            free_bytes,
        })
    }
}
