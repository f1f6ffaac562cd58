//! `max`: no larger size is used, whatever `initial` says.

use crate::trial::{Error, Trial};

forms! { trial: max = 12 }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::with_limit(6);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [12, 6]);
}
