//! Predictions that are kept from call to call, and their renewal.
//!
//! # Why
//!
//! A kept prediction only gives sizes. Splitting is decided in each call anew, since one line may run several bodies.

use std::sync::Arc;

use super::judging::Program;
use super::pace::Pace;
use super::prediction::Prediction;
use super::recent::Recent;
use crate::error::{Error, ErrorKind};

/// Predictions by key, and the time of dry runs by site.
#[derive(Debug)]
pub(super) struct Store<K, S> {
    predictions: Recent<K, Arc<Kept>>,
    paces: Recent<S, Arc<Pace>>,
}

/// Prediction for all calls with the same key.
#[derive(Debug)]
pub(super) struct Kept {
    /// `None` if the body cannot run dry, or if its dry runs would take too much time.
    pub(super) prediction: Option<Prediction>,
    /// Reason for measuring sizes: there is no prediction, or none that could be confirmed.
    pub(super) why: Option<String>,
    /// The program that was judged last.
    pub(super) program: Program,
    pub(super) pace: Arc<Pace>,
}

/// A prediction, and the error if it could not be confirmed at the size that it predicts to fit.
pub(super) type Found = (Prediction, Option<Error>);

impl<K: Clone + PartialEq, S: Clone + PartialEq> Store<K, S> {
    pub(super) const fn new() -> Self {
        Self { predictions: Recent::new(), paces: Recent::new() }
    }

    /// Returns the prediction that is kept for `key`, or makes one by the dry runs of `find`. If these would take too
    /// much of the time of `site`, returns the prediction with the lowest `rank`, if any has one, or none. `report`
    /// reports the reason for having none.
    pub(super) fn of<R: Ord>(
        &self,
        (key, site): (&K, &S),
        rank: impl Fn(&K, &Kept) -> Option<R>,
        find: impl FnOnce() -> Result<Found, Error>,
        report: impl Fn(&Error),
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
            return stands_in.map_or_else(
                || (None, Arc::new(Kept::nothing(pace, TOO_LONG))),
                |(rank, kept)| (Some(rank), kept),
            );
        }
        (None, self.renewed(key, (before, pace), find, report))
    }

    /// Makes a prediction by `find`, and keeps it in place of the one `before`.
    pub(super) fn renewed(
        &self,
        key: &K,
        (before, pace): (Option<&Prediction>, Arc<Pace>),
        find: impl FnOnce() -> Result<Found, Error>,
        report: impl Fn(&Error),
    ) -> Arc<Kept> {
        let found = pace.runs_dry(find).inspect_err(&report);
        // Out of memory is not kept, because the next call may have more.
        let is_kept = !found.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfMemory);
        let kept = Arc::new(Kept::of(found, before, pace, report));
        if is_kept {
            self.predictions.renew(key.clone(), Arc::clone(&kept));
        }
        kept
    }
}

const TOO_LONG: &str = "dry runs would take more than 5 % of the time of this line's calls";

impl Kept {
    fn nothing(pace: Arc<Pace>, why: &str) -> Self {
        Self { prediction: None, why: Some(why.to_owned()), program: Program::default(), pace }
    }

    fn of(
        found: Result<Found, Error>,
        before: Option<&Prediction>,
        pace: Arc<Pace>,
        report: impl Fn(&Error),
    ) -> Self {
        let (prediction, unconfirmed) = match found {
            Ok(found) => found,
            Err(error) => return Self::nothing(pace, &format!("the body cannot run dry: {error}")),
        };
        let unconfirmed = unconfirmed.inspect(report);
        let why = unconfirmed.map(|error| format!("no size could be confirmed: {error}"));
        let program = Program::of(&prediction);
        Self { prediction: Some(prediction.renews(before)), why, program, pace }
    }

    /// Reason for predicting no size.
    pub(super) fn why_none(&self) -> String {
        let of_prediction = || self.prediction.as_ref().map_or("", Prediction::why_none).to_owned();
        self.why.clone().unwrap_or_else(of_prediction)
    }
}
