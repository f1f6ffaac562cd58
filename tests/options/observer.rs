//! `observer`: is told what happens in the call.

use std::sync::Mutex;

use toma::observe::{Answer, Event, EventKind, Observer};
use toma::{NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Shrinks>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().observer(&trial.given), initial 16;
    attribute: initial = 16, cache = NoCache, observer = trial.given
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(Shrinks::default(), 4);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 8, 4]);
    assert_eq!(*trial.given.0.lock().unwrap(), [(16, 8), (8, 4)]);
}

/// Writes down every shrink.
#[derive(Default)]
struct Shrinks(Mutex<Vec<(usize, usize)>>);

impl Observer for Shrinks {
    fn observe(&self, event: &Event<'_>) {
        if let EventKind::Answered { size, answer: Answer::Shrink(to) } = event.kind {
            self.0.lock().unwrap().push((size, to));
        }
    }
}
