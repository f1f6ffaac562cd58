//! Predictions that are kept from call to call, and how often they are made anew.
//!
//! # Why
//!
//! What is kept says sizes. Whether a call may be split is decided in each call anew, since one line may run
//! several bodies.

use std::sync::Arc;

use super::judging::Program;
use super::pace::Pace;
use super::prediction::Prediction;
use super::recent::Recent;
use crate::error::{Error, ErrorKind};

/// Predictions by what they are of, and the time that their dry runs took by the line that calls.
#[derive(Debug)]
pub(super) struct Store<K, S> {
    predictions: Recent<K, Arc<Kept>>,
    paces: Recent<S, Arc<Pace>>,
}

/// The prediction of calls that are alike.
#[derive(Debug)]
pub(super) struct Kept {
    /// `None`: the body cannot run dry, or must not for the time it takes.
    pub(super) prediction: Option<Prediction>,
    /// No size could be confirmed: sizes are measured.
    pub(super) measures: bool,
    /// The program that was judged last.
    pub(super) program: Program,
    pub(super) pace: Arc<Pace>,
}

/// A prediction, and why it could not be confirmed at the size that it says fits.
pub(super) type Found = (Prediction, Option<Error>);

impl<K: Clone + PartialEq, S: Clone + PartialEq> Store<K, S> {
    pub(super) const fn new() -> Self {
        Self { predictions: Recent::new(), paces: Recent::new() }
    }

    /// The prediction that is kept for `key`, or the one that `find` makes by dry runs. Where these would take too much
    /// of the time of `site`, the one of the lowest `rank`, if any has one, or none. `say` is told why there is none.
    pub(super) fn of<R: Ord>(
        &self,
        (key, site): (&K, &S),
        rank: impl Fn(&K, &Kept) -> Option<R>,
        find: impl FnOnce() -> Result<Found, Error>,
        say: impl Fn(&Error),
    ) -> (Option<R>, Arc<Kept>) {
        let known = self.predictions.of(key);
        let before = known.as_ref().and_then(|kept| kept.prediction.as_ref());
        let is_renewed = before.is_some_and(|before| before.corrected().renews());
        if let Some(known) = known.as_ref().filter(|_| !is_renewed) {
            return (None, Arc::clone(known));
        }
        let pace = Pace::of(&self.paces, site);
        if before.is_none() && !pace.allows() {
            let stands_in = self.predictions.nearest(|key, kept| rank(key, kept));
            return stands_in
                .map_or_else(|| (None, Arc::new(Kept::nothing(pace))), |(rank, kept)| (Some(rank), kept));
        }
        let found = pace.runs_dry(find).inspect_err(&say);
        // The next call may have more memory.
        let is_kept = !found.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfMemory);
        let kept = Arc::new(Kept::of(found.ok(), before, pace, say));
        if is_kept {
            self.predictions.renew(key.clone(), Arc::clone(&kept));
        }
        (None, kept)
    }
}

impl Kept {
    fn nothing(pace: Arc<Pace>) -> Self {
        Self { prediction: None, measures: true, program: Program::default(), pace }
    }

    fn of(found: Option<Found>, before: Option<&Prediction>, pace: Arc<Pace>, say: impl Fn(&Error)) -> Self {
        let Some((prediction, unconfirmed)) = found else { return Self::nothing(pace) };
        let measures = unconfirmed.as_ref().inspect(|error| say(error)).is_some();
        let program = Program::of(&prediction);
        Self { prediction: Some(prediction.renews(before)), measures, program, pace }
    }
}
