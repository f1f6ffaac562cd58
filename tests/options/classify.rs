//! `classify`: says of an error that is no `std::error::Error` what it means.

use toma::classify::Class;

use crate::trial::{Refusal, Trial};

forms! { trial: classify = Error::class }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::with_limit(8);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 8]);

    let hopeless = Trial::with_limit(0);
    assert_eq!(form(&hopeless), Err(Error::refused()));
    assert_eq!(hopeless.steps(), [16, 8, 4, 2, 1]);
}

/// An error that only its author understands.
#[derive(Debug, PartialEq)]
struct Error {
    code: i32,
}

impl Error {
    fn class(&self) -> Class {
        if self.code == -2 { Class::OutOfMemory } else { Class::Other }
    }
}

impl Refusal for Error {
    fn refused() -> Self {
        Self { code: -2 }
    }
}
