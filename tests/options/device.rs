//! `device`: the memory source that is read, and asked to release its cached memory, after each
//! failure that is retried.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use toma::memory::{MemorySource, Reading};
use toma::{NoCache, execute};

use crate::trial::{Error, TrialWith};

type Trial = TrialWith<Counting>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().device(&trial.given), initial 16;
    attribute: initial = 16, cache = NoCache, device = trial.given
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let trial = Trial::giving(Counting::default(), 4);
    form(&trial).unwrap();
    assert_eq!(trial.steps(), [16, 8, 4]);
    assert_eq!(trial.given.read.load(Relaxed), 2);
    assert_eq!(trial.given.released.load(Relaxed), 2);
}

/// A memory that counts what it is asked.
#[derive(Debug, Default)]
struct Counting {
    read: AtomicUsize,
    released: AtomicUsize,
}

impl MemorySource for Counting {
    fn name(&self) -> &'static str {
        // Tests run side by side, and none shares its memory with another.
        thread_local!(static NAME: &'static str = format!("counting {:?}", std::thread::current().id()).leak());
        NAME.with(|name| *name)
    }

    fn read(&self) -> io::Result<Reading> {
        self.read.fetch_add(1, Relaxed);
        Ok(Reading::new(0, 1 << 30))
    }

    fn release_cached_memory(&self) {
        self.released.fetch_add(1, Relaxed);
    }
}
