//! `policy`: what decides the next size.

use toma::Decay;

use crate::trial::{Error, Trial};

forms! { trial: policy = Decay::new(0.25) }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::with_limit(4);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 4]);
}
