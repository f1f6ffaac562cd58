//! `before_retry`: runs after each failed attempt that is retried, with the failed items.

use std::cell::RefCell;
use std::ops::Range;

use toma::{NoCache, execute};

use crate::trial::{Error, Position, TrialWith, position};

type Trial = TrialWith<RefCell<Vec<Range<usize>>>>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().before_retry(|failed| trial.undo(failed.start, failed.end)), initial 16;
    attribute: initial = 16, cache = NoCache, before_retry = trial.undo(start, end)
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(RefCell::default(), 4);
    form(&trial).unwrap();
    assert_eq!(trial.given.borrow()[..], trial.attempts()[..2]);
    assert_eq!(trial.steps(), [16, 8, 4]);

    let hopeless = Trial::giving(RefCell::default(), 0);
    assert_eq!(form(&hopeless), Err(Error::new(None)));
    assert_eq!(hopeless.steps(), [16, 8, 4, 2, 1]);
    assert_eq!(hopeless.given.borrow()[..], hopeless.attempts()[..4]);
}

impl Trial {
    fn undo<S: Position>(&self, start: S, end: S) {
        self.given.borrow_mut().push(position(start)..position(end));
    }
}
