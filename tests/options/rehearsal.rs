//! `predict` with a dry run: the body runs before the first attempt, and what it did is taken back.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use toma::memory::Host;
use toma::predict::{Foreseen, Predict, Rehearsal, run_dry};
use toma::{NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Rehearses>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().device(Host::shared()).predict(&trial.given), initial 16;
    attribute: initial = 16, cache = NoCache, device = Host::shared(), predict = &trial.given
}

/// The dry runs are of the first items, at sizes that the call could use. An asynchronous body has none.
fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(Rehearses::default(), 5);
    form(&trial).unwrap();
    let attempts = trial.attempts();
    let (dry, real) = attempts.split_at(trial.given.runs.load(Relaxed));
    // Other tests use the host, too: a size that failed beside them is tried once more.
    let mut real = real.to_vec();
    real.dedup();
    let start = real[0].start;
    if dry.is_empty() {
        assert_eq!(real[..3], [start..start + 16, start..start + 8, start..start + 4]);
    } else {
        assert_eq!(dry, [4, 4, 8, 8].map(|size| start..start + size));
        assert_eq!(real[0], start..start + 5, "what the dry run says");
    }
}

/// Runs the body at two sizes, of which the larger fails, and says that 5 items fit.
#[derive(Debug, Default)]
struct Rehearses {
    runs: AtomicUsize,
}

impl Predict for Rehearses {
    fn foresee(&self, _: Option<usize>, _: u64) -> Option<Foreseen> {
        panic!("the body is lent")
    }

    fn foresee_dry(&self, call: &mut Rehearsal<'_>) -> Option<Foreseen> {
        let sizes = call.sizes(8).filter(|_| call.can_run())?;
        assert_eq!((sizes, call.size_at(100)), ([4, 8], 16));
        for size in sizes {
            let failures = run_dry(|| {
                let failures = [(); 2].map(|()| call.run(size).is_err());
                call.take_back();
                failures
            });
            self.runs.fetch_add(2, Relaxed);
            assert_eq!(failures.unwrap(), [size > 5; 2]);
        }
        Some(Foreseen { size: 5, needs_bytes: 1 })
    }
}
