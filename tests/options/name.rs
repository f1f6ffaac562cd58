//! `name`: how reports and cache entries call it.

use std::rc::Rc;

use toma::{GlobalCache, NoCache, execute, report};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Rc<GlobalCache>>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().cache(&*trial.given).name("resize"), initial 16;
    attribute: initial = 16, cache = &*trial.given, name = "resize"
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(Rc::default(), 8);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 8]);
    assert_eq!(report::last().unwrap().name.to_string(), "resize");
    assert_eq!(trial.given.entries()[0].name, "resize");
}
