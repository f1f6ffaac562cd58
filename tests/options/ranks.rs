//! `ranks`: all ranks make the same attempts.

use std::thread;

use toma::ranks::{ThreadRank, threads};
use toma::{NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<ThreadRank>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().name("work").ranks(&trial.given), initial 16;
    attribute: initial = 16, cache = NoCache, ranks = trial.given
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let run = |rank: ThreadRank, room: usize| {
        let trial = Trial::giving(rank, room);
        form(&trial).unwrap();
        trial.steps()
    };
    let steps: Vec<_> = thread::scope(|scope| {
        let ranks = threads(2).into_iter().zip([usize::MAX, 5]);
        let running: Vec<_> = ranks.map(|(rank, room)| scope.spawn(move || run(rank, room))).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    let [one, other] = [&steps[0], &steps[1]];
    assert_eq!(one, other);
    assert_eq!(one[..3], [16, 8, 4]);
}
