//! `policy`: who decides the next size.

use toma::{Decay, NoCache, execute};

use crate::trial::{Error, Trial};

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().policy(Decay::new(0.25)), initial 16;
    attribute: initial = 16, cache = NoCache, policy = Decay::new(0.25)
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::with_limit(4);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 4]);
}
