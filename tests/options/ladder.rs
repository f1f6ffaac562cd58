//! `ladder`: what is tried besides a smaller size; here another memory, when nothing smaller is left.

use toma::device::Ladder;

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Ladder<'static>>;

forms! { trial: ladder = trial.given }

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(Ladder::default().fallback(true), 0).falling_back_to(8);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 8, 4, 2, 1, 16, 8]);

    let hopeless = Trial::giving(Ladder::default(), 0);
    assert_eq!(form(&hopeless), Err(Error::new(None)));
    assert_eq!(hopeless.steps(), [16, 8, 4, 2, 1]);
}
