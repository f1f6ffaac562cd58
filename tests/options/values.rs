//! The values of options: any expression, evaluated once per call, with the arguments in scope.

use std::cell::Cell;
use std::time::Duration;

use toma::GlobalCache;
use toma::classify::Class;
use toma::device::Ladder;
use toma::memory::Host;
use toma::observe::Event;
use toma::predict::{Foreseen, Predict};
use toma::{Decay, NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Given>;

forms! {
    names: trial, start, end;
    inline: {
        execute::with::<NoCache>()
            .cache(trial.once(&trial.given.cache))
            .min(trial.once(2))
            .max(trial.once(16))
            .multiple_of(trial.once(2))
            .max_attempts(trial.once(9))
            .deadline(trial.once(Duration::from_secs(3600)))
            .key(trial.once("key"))
            .name(trial.once("name"))
            .device(trial.once(Host::shared()))
            .observer(trial.once(&ignore))
            .ladder(trial.once(Ladder::default().without_waiting()))
            .predict(trial.once(&Nothing))
            .policy(trial.once(Decay::new(0.5)))
            .classify(trial.once(out_of_memory))
    }, initial trial.once(16);
    attribute:
        initial = trial.once(16),
        cache = &trial.once(&trial.given).cache,
        min = trial.once(2),
        max = trial.once(16),
        multiple_of = trial.once(2),
        max_attempts = trial.once(9),
        deadline = trial.once(Duration::from_secs(3600)),
        key = trial.once("key"),
        name = trial.once("name"),
        device = trial.once(Host::shared()),
        observer = trial.once(ignore),
        ladder = trial.once(Ladder::default().without_waiting()),
        predict = trial.once(&Nothing),
        policy = trial.once(Decay::new(0.5)),
        classify = trial.once(out_of_memory),
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(Given::default(), 2);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 8, 4, 2]);
    assert_eq!(trial.given.evaluations.get(), 15);
}

#[derive(Default)]
struct Given {
    cache: GlobalCache,
    evaluations: Cell<usize>,
}

impl Trial {
    fn once<V>(&self, value: V) -> V {
        self.given.evaluations.set(self.given.evaluations.get() + 1);
        value
    }
}

fn ignore(_: &Event<'_>) {}

#[derive(Debug)]
struct Nothing;

impl Predict for Nothing {
    fn foresee(&self, _: Option<usize>, _: u64) -> Option<Foreseen> {
        None
    }
}

fn out_of_memory(_: &Error) -> Class {
    Class::OutOfMemory
}
