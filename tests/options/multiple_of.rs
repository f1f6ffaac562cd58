//! `multiple_of`: every size is a multiple, and the smallest size is one.

use crate::trial::{Error, Trial};

forms! { trial: multiple_of = 5 }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let enough = Trial::with_limit(14);
    form(&enough).unwrap();
    assert_eq!(enough.steps(), [15, 5]);

    let too_little = Trial::with_limit(4);
    assert_eq!(form(&too_little), Err(Error::new(None)));
    assert_eq!(too_little.steps(), [15, 5]);
}
