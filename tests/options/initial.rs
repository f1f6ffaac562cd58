//! `initial`: the first size.

use toma::{NoCache, execute};

use crate::trial::{Error, Trial};

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>(), initial 12;
    attribute: initial = 12, cache = NoCache
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::with_limit(usize::MAX);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [12]);
}
