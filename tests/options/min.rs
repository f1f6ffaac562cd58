//! `min`: no smaller size is tried.

use crate::trial::{Error, Trial};

forms! { trial: min = 8 }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let enough = Trial::with_limit(8);
    form(&enough).unwrap();
    assert_eq!(enough.steps(), [16, 8]);

    let too_little = Trial::with_limit(7);
    assert_eq!(form(&too_little), Err(Error::new(None)));
    assert_eq!(too_little.steps(), [16, 8]);
}
