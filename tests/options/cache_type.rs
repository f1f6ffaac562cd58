//! `cache = Type`: the cache is asked where to start, and told what settled.

use std::cell::RefCell;

use toma::cache::SizeCache;
use toma::cache::{Place, Remembered};
use toma::execute;

use crate::trial::{Error, Trial};

forms! {
    names: trial, start, end;
    inline: execute::with::<StartsAt4>(), initial 16;
    attribute: initial = 16, cache = StartsAt4
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::with_limit(2);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [4, 2]);
    assert_eq!(TOLD.take(), [2]);
}

thread_local! {
    static TOLD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Knows 4 for every place.
#[derive(Debug)]
struct StartsAt4;

impl SizeCache for StartsAt4 {
    fn shared() -> &'static Self {
        &Self
    }

    fn recall(&self, _: &Place<'_>) -> Option<Remembered> {
        Some(Remembered::new(4))
    }

    fn remember(&self, _: &Place<'_>, learned: Remembered) {
        TOLD.with_borrow_mut(|told| told.push(learned.settled));
    }
}
