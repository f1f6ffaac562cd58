//! `max`: no larger size is used, whatever `initial` says.

use toma::{NoCache, execute};

use crate::trial::{Error, Trial};

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().max(12), initial 16;
    attribute: initial = 16, cache = NoCache, max = 12
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::with_limit(6);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [12, 6]);
}
