//! `deadline`: no retry starts after it.

use std::time::Duration;

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Duration>;

forms! { trial: deadline = trial.given }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let in_time = Trial::giving(Duration::from_secs(3600), 8);
    form(&in_time).unwrap();
    assert_eq!(in_time.steps(), [16, 8]);

    let late = Trial::giving(Duration::ZERO, 8);
    assert_eq!(form(&late), Err(Error::new(None)));
    assert_eq!(late.steps(), [16]);
}
