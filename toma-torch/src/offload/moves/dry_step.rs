//! Predicts a step by a dry run, so that it is known before it has run.
//!
//! # Why
//!
//! The code that reports operators of a real run also reports those of a dry run, and no trace is read. So the
//! operators of both match by construction, small storages and views included.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use toma_core::predict::is_dry;

use super::state::ManagerState;
use crate::error::{Error, ErrorKind};
use crate::ffi::{Ended, Predicts, Remembered, Use};
use crate::offload::step::known_step::{UsedStorage, print_of};
use crate::offload::step::recorder::StepRecorder;
use crate::predict::dry_run;

/// Assumed speed of operators per byte of arguments and allocations, before any has run.
const BYTES_PER_SECOND: f64 = 1e10;

thread_local! {
    static DRY_STEP: RefCell<Option<DryStep>> = const { RefCell::new(None) };
}

/// State of a dry run that records a prediction.
struct DryStep {
    shared: Arc<ManagerState>,
    recording: StepRecorder,
    /// Live storages with their bytes, by id. `Remembered` keeps an id from being reused.
    living: HashMap<u64, (Remembered, u64)>,
    /// Bytes of the arguments of the running operator.
    bytes: u64,
}

impl DryStep {
    fn own(&mut self, uses: &[Use<'_>]) -> Vec<UsedStorage> {
        let (id, gathers) = (self.shared.id, self.shared.gathers_outside.load(Ordering::Relaxed));
        let shared = Arc::clone(&self.shared);
        let _unmoved = shared.table();
        let own =
            uses.iter().filter(|one| one.device == id && !(one.is_gathered && gathers) && one.may_move());
        let found = |one: &Use<'_>| {
            self.living.entry(one.id()).or_insert_with(|| (Remembered::new(one), one.bytes));
            UsedStorage { id: one.id(), bytes: one.bytes, writes: one.writes }
        };
        own.map(found).collect()
    }

    fn begins(&mut self, name: &str, uses: &[Use<'_>]) {
        let living = &self.living;
        self.recording.end_lives(|id| living.get(&id).is_none_or(|(storage, _)| storage.is_gone()));
        self.living.retain(|_, (storage, _)| !storage.is_gone());
        let found = self.own(uses);
        self.bytes = found.iter().map(|one| one.bytes).sum();
        self.recording.begins(print_of(name, &found), &found, |_| false);
    }

    fn ends(&mut self, ended: &Ended<'_>) {
        let made: Vec<_> =
            self.own(ended.made).into_iter().map(|one| UsedStorage { writes: true, ..one }).collect();
        #[expect(clippy::cast_precision_loss, reason = "it is a guess")]
        let seconds = (self.bytes + ended.inside_bytes) as f64 / BYTES_PER_SECOND;
        self.recording.ends(&made, ended.inside_bytes, Duration::from_secs_f64(seconds));
    }

    fn learn(mut self) -> Result<(), Error> {
        self.living.retain(|_, (storage, _)| !storage.is_gone());
        let Some((known, mut found)) = self.recording.into_step() else {
            let message = "offload: nothing to predict: no operator of the step was reported to the manager, which this \
                           thread must have entered";
            return Err(Error::new(ErrorKind::Unsupported, message.to_owned()));
        };
        found.retain(|(_, id)| self.living.contains_key(id));
        let mut table = self.shared.table();
        for (id, (storage, bytes)) in self.living.drain() {
            table.found(id, storage, bytes);
        }
        drop(table);
        self.shared.learn_predicted(known, &found);
        Ok(())
    }
}

/// Records the beginning of an operator. Returns false if this thread does not record a prediction.
pub(crate) fn begins(name: &str, uses: &[Use<'_>]) -> bool {
    with(|predicted| predicted.begins(name, uses))
}

pub(crate) fn ends(ended: &Ended<'_>) -> bool {
    with(|predicted| predicted.ends(ended))
}

fn with(record: impl FnOnce(&mut DryStep)) -> bool {
    let record = |predicted: &RefCell<Option<DryStep>>| predicted.borrow_mut().as_mut().map(record).is_some();
    DRY_STEP.try_with(record).unwrap_or(false)
}

/// Guard that records the operators of this thread; it ends the recording even if a step panics.
struct Predicting<'a> {
    predicted: &'a mut Option<DryStep>,
    _predicts: Predicts,
}

impl<'a> Predicting<'a> {
    fn begin(predicted: &'a mut Option<DryStep>) -> Self {
        DRY_STEP.set(predicted.take());
        Self { predicted, _predicts: Predicts::begin() }
    }
}

impl Drop for Predicting<'_> {
    fn drop(&mut self) {
        *self.predicted = DRY_STEP.take();
    }
}

/// Runs a step dry, so that the manager knows it before it really runs.
pub(crate) fn predict<T>(shared: &Arc<ManagerState>, step: impl FnOnce() -> T) -> Result<(), Error> {
    if toma_core::private::is_disabled() {
        return Ok(());
    }
    if is_dry() {
        return dry_run(step).map(drop);
    }
    let (shared, recording) = (Arc::clone(shared), StepRecorder::default());
    let mut predicted = Some(DryStep { shared, recording, living: HashMap::new(), bytes: 0 });
    dry_run(|| {
        let _predicting = Predicting::begin(&mut predicted);
        drop(step());
    })?;
    predicted.map_or(Ok(()), DryStep::learn)
}
