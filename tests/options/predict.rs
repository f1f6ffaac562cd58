//! `predict`: the first size, where the size cache knows nothing.

use toma::memory::Host;
use toma::predict::{Foreseen, Predict};
use toma::{NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Fits>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().device(Host::shared()).predict(&trial.given), initial 16;
    attribute: initial = 16, cache = NoCache, device = Host::shared(), predict = &trial.given
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(Fits(5), 3);
    form(&trial).unwrap();
    assert_eq!(trial.steps()[..2], [5, 2]);
}

/// So many items fit.
#[derive(Debug)]
struct Fits(usize);

impl Predict for Fits {
    fn foresee(&self, _: Option<usize>, _: u64) -> Option<Foreseen> {
        Some(Foreseen { size: self.0, needs_bytes: 1 })
    }
}

#[toma::range(initial = 16, cache = NoCache, predict = None)]
fn unpredicted(start: usize, end: usize) {
    assert!(start < end);
}

#[test]
fn none_predicts_nothing() {
    unpredicted(0, 16);
    assert_eq!(toma::report::last().unwrap().foreseen, None);
}

#[test]
fn no_more_is_foreseen_than_a_call_may_use() {
    execute::with::<NoCache>().device(Host::shared()).predict(&Fits(1000)).batch(16, |_| ());
    assert_eq!(toma::report::last().unwrap().foreseen.unwrap().size, 16);
}
