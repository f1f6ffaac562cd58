//! `max_attempts`: so many attempts at one piece, then the failure goes through.

use crate::trial::{Error, Trial};

forms! { trial: max_attempts = 3 }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let enough = Trial::with_limit(4);
    form(&enough).unwrap();
    assert_eq!(enough.steps(), [16, 8, 4]);

    let too_little = Trial::with_limit(3);
    assert_eq!(form(&too_little), Err(Error::new(None)));
    assert_eq!(too_little.steps(), [16, 8, 4]);
}
