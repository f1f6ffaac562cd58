//! A prediction that set the first size of a call, and the results that it learns from.

use std::time::Instant;

use super::attempt::Attempt;
use super::machine::Failed;
use crate::classify::Class;
use crate::clock;
use crate::contained::contained;
use crate::memory::MemorySource;
use crate::observe::report;
use crate::predict::{Followed, Shown};

/// Divisor of the predicted size for the first piece, if more than half of the free bytes would be taken and attempts
/// take bytes that no dry run sees.
const EXPLORES: usize = 4;

/// A size that was predicted to fit, and the sizes that failed nevertheless.
#[derive(Debug)]
pub(super) struct Prediction<'a> {
    predict: Followed<'a>,
    device: &'a dyn MemorySource,
    predicted: report::Predicted,
    items: Option<usize>,
    /// Bytes that the program had allocated at the prediction, if they are counted.
    allocated_bytes: Option<u64>,
    /// True if the next piece is smaller than predicted to fit, to learn from it.
    pub(super) explores: bool,
    /// The smallest size that was predicted to fit and failed, and the bytes that the call could have used.
    failed: Option<(usize, u64)>,
    /// The largest size that has succeeded since that failure.
    works: Option<usize>,
    /// True once a failure was injected: then the prediction learns from no failure.
    injected: bool,
    begun: Instant,
}

impl<'a> Prediction<'a> {
    pub(super) fn new(
        predict: Followed<'a>,
        device: &'a dyn MemorySource,
        predicted: report::Predicted,
        items: Option<usize>,
    ) -> Self {
        let allocated_bytes = device.usage().map(|usage| usage.allocated_bytes);
        let takes_most = predicted.needs_bytes > predicted.free_bytes / 2;
        let explores = takes_most && items.is_some() && predict.is_unproven();
        Self {
            predict,
            device,
            predicted,
            items,
            allocated_bytes,
            explores,
            failed: None,
            works: None,
            injected: false,
            begun: clock::now(),
        }
    }

    /// The size to begin with.
    pub(super) fn first(&self) -> usize {
        if self.explores { self.predicted.size.div_ceil(EXPLORES) } else { self.predicted.size }
    }

    /// Records that a piece of this size succeeded.
    pub(super) fn worked(&mut self, size: usize) {
        if self.failed.is_some_and(|(failed, _)| size < failed) {
            self.works = self.works.max(Some(size));
        }
    }

    /// Lets the prediction learn from a success. Returns the size that fits the rest, if none has failed.
    pub(super) fn took(
        &mut self,
        shown: Shown,
        left: usize,
        is_packed: bool,
        free_bytes: Option<u64>,
    ) -> Option<usize> {
        self.predict.learn(shown);
        let goes_on = self.failed.is_none() && left > 0;
        let fits = self.predict.predict_rest(left, is_packed, free_bytes.filter(|_| goes_on)?)?;
        Some(fits.size)
    }

    /// Records a failed attempt of this size. `is_to_blame`: the size is the cause if nothing else is.
    pub(super) fn after_failure(
        &mut self,
        size: usize,
        is_to_blame: bool,
        attempt: &Attempt,
        failed: &Failed,
    ) {
        if attempt.injected {
            self.injected = true;
        } else if is_to_blame && failed.class == Class::OutOfMemory && !attempt.hold.is_contended() {
            self.ran_out(size, failed.now.map(|now| now.free_bytes));
        }
    }

    /// Records that an attempt of this size ran out of memory, and that `free_bytes` were free after it.
    ///
    /// Bytes that earlier pieces still hold were free at the prediction, so they count as available. Bytes that
    /// others have taken since then do not.
    fn ran_out(&mut self, size: usize, free_bytes: Option<u64>) {
        self.explores = false;
        let smallest = self.failed.map_or(self.predicted.size, |(failed, _)| failed - 1);
        if size > smallest {
            return;
        }
        let now = self.device.usage().map(|usage| usage.allocated_bytes);
        let left = now.zip(self.allocated_bytes).map(|(now, then)| now.saturating_sub(then));
        let counted = free_bytes.zip(left).map(|(free, left)| free.saturating_add(left));
        self.works = self.works.filter(|&works| works < size);
        if self.failed.is_none() {
            contained(|| self.predict.learn(Shown::RanOut));
        }
        self.failed = Some((size, counted.unwrap_or(self.predicted.free_bytes)));
    }

    /// Returns the size that is predicted to fit after a predicted size has failed, if there is one.
    pub(super) fn smaller(&self, left: usize, free_bytes: u64) -> Option<usize> {
        self.failed?;
        Some(self.predict.predict_smaller(left, free_bytes)?.size)
    }
}

impl Drop for Prediction<'_> {
    /// Reports the failed size once, at the end of the call: sizes that fail one after the other are one mistake.
    fn drop(&mut self) {
        let elapsed = clock::now().saturating_duration_since(self.begun);
        if let Some((size, free_bytes)) = self.failed.filter(|_| !self.injected) {
            // A prediction is user code, and this may run while a panic unwinds.
            let shown = Shown::Failed { size, works: self.works, items: self.items, free_bytes };
            contained(|| self.predict.learn(shown));
        }
        contained(|| self.predict.learn(Shown::Ended { elapsed }));
    }
}
