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

use super::known::{Found, print_of};
use super::recording::Recording;
use super::shared::Shared;
use crate::error::{Error, ErrorKind};
use crate::ffi::{Ended, Foresees, Remembered, Use};
use crate::predict::dry_run;

/// Assumed speed of operators per byte of arguments and allocations, before any has run.
const BYTES_PER_SECOND: f64 = 1e10;

thread_local! {
    static FORESEEN: RefCell<Option<Foreseen>> = const { RefCell::new(None) };
}

/// State of a dry run that records a prediction.
struct Foreseen {
    shared: Arc<Shared>,
    recording: Recording,
    /// Live storages with their bytes, by id. `Remembered` keeps an id from being reused.
    living: HashMap<u64, (Remembered, u64)>,
    /// Bytes of the arguments of the running operator.
    bytes: u64,
}

impl Foreseen {
    fn own(&mut self, uses: &[Use<'_>]) -> Vec<Found> {
        let (id, gathers) = (self.shared.id, self.shared.gathers_outside.load(Ordering::Relaxed));
        let shared = Arc::clone(&self.shared);
        let _unmoved = shared.table();
        let own =
            uses.iter().filter(|one| one.device == id && !(one.is_gathered && gathers) && one.may_move());
        let found = |one: &Use<'_>| {
            self.living.entry(one.id()).or_insert_with(|| (Remembered::new(one), one.bytes));
            Found { id: one.id(), bytes: one.bytes, writes: one.writes }
        };
        own.map(found).collect()
    }

    fn begins(&mut self, name: &str, uses: &[Use<'_>]) {
        let living = &self.living;
        self.recording.buries(|id| living.get(&id).is_none_or(|(storage, _)| storage.is_gone()));
        self.living.retain(|_, (storage, _)| !storage.is_gone());
        let found = self.own(uses);
        self.bytes = found.iter().map(|one| one.bytes).sum();
        self.recording.begins(print_of(name, &found), &found, |_| false);
    }

    fn ends(&mut self, ended: &Ended<'_>) {
        let made: Vec<_> =
            self.own(ended.made).into_iter().map(|one| Found { writes: true, ..one }).collect();
        #[expect(clippy::cast_precision_loss, reason = "it is a guess")]
        let seconds = (self.bytes + ended.inside_bytes) as f64 / BYTES_PER_SECOND;
        self.recording.ends(&made, ended.inside_bytes, Duration::from_secs_f64(seconds));
    }

    fn learn(mut self) -> Result<(), Error> {
        self.living.retain(|_, (storage, _)| !storage.is_gone());
        let Some((known, mut found)) = self.recording.alone() else {
            let message = "offload: nothing to foresee: no operator of the step was told to the manager, which this \
                           thread must have entered";
            return Err(Error::new(ErrorKind::Unsupported, message.to_owned()));
        };
        found.retain(|(_, id)| self.living.contains_key(id));
        let mut table = self.shared.table();
        for (id, (storage, bytes)) in self.living.drain() {
            table.found(id, storage, bytes);
        }
        drop(table);
        self.shared.learn_foreseen(known, &found);
        Ok(())
    }
}

/// Records the beginning of an operator. Returns false if this thread does not record a prediction.
pub(crate) fn begins(name: &str, uses: &[Use<'_>]) -> bool {
    with(|foreseen| foreseen.begins(name, uses))
}

pub(crate) fn ends(ended: &Ended<'_>) -> bool {
    with(|foreseen| foreseen.ends(ended))
}

fn with(told: impl FnOnce(&mut Foreseen)) -> bool {
    let told = |foreseen: &RefCell<Option<Foreseen>>| foreseen.borrow_mut().as_mut().map(told).is_some();
    FORESEEN.try_with(told).unwrap_or(false)
}

/// Guard that records the operators of this thread; it ends the recording even if a step panics.
struct Foreseeing<'a> {
    foreseen: &'a mut Option<Foreseen>,
    _told: Foresees,
}

impl<'a> Foreseeing<'a> {
    fn begin(foreseen: &'a mut Option<Foreseen>) -> Self {
        FORESEEN.set(foreseen.take());
        Self { foreseen, _told: Foresees::begin() }
    }
}

impl Drop for Foreseeing<'_> {
    fn drop(&mut self) {
        *self.foreseen = FORESEEN.take();
    }
}

/// Runs a step dry, so that the manager knows it before it really runs.
pub(crate) fn foresee<T>(shared: &Arc<Shared>, step: impl FnOnce() -> T) -> Result<(), Error> {
    if toma_core::private::is_disabled() {
        return Ok(());
    }
    if is_dry() {
        return dry_run(step).map(drop);
    }
    let (shared, recording) = (Arc::clone(shared), Recording::default());
    let mut foreseen = Some(Foreseen { shared, recording, living: HashMap::new(), bytes: 0 });
    dry_run(|| {
        let _foreseeing = Foreseeing::begin(&mut foreseen);
        drop(step());
    })?;
    foreseen.map_or(Ok(()), Foreseen::learn)
}
