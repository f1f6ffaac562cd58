//! `cache = &instance`: the instance remembers, and no other cache.

use std::rc::Rc;

use toma::{GlobalCache, NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Rc<GlobalCache>>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().cache(&*trial.given), initial 16;
    attribute: initial = 16, cache = &*trial.given
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let steps = |cache: &Rc<GlobalCache>| {
        let trial = Trial::giving(Rc::clone(cache), 4);
        form(&trial).unwrap();
        trial.steps()
    };
    let (one, other) = (Rc::default(), Rc::default());
    assert_eq!(steps(&one), [16, 8, 4]);
    assert_eq!(steps(&one), [4]);
    assert_eq!(steps(&other), [16, 8, 4]);
    assert_eq!((one.entries().len(), other.entries().len()), (1, 1));
}
