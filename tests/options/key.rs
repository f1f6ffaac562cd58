//! `key`: what calls with different keys learn is kept apart.

use std::rc::Rc;

use toma::{GlobalCache, NoCache, execute};

use crate::trial::{Error, TrialWith};

struct Given {
    cache: Rc<GlobalCache>,
    key: (u32, &'static str),
}

type Trial = TrialWith<Given>;

forms! {
    names: trial, start, end;
    inline: execute::with::<NoCache>().cache(&*trial.given.cache).key(trial.given.key), initial 16;
    attribute: initial = 16, cache = &*trial.given.cache, key = trial.given.key
}

fn effect(form: fn(&Trial) -> Result<(), Error>) {
    let cache = Rc::new(GlobalCache::new());
    let steps = |key, limit| {
        let trial = Trial::giving(Given { cache: Rc::clone(&cache), key }, limit);
        form(&trial).unwrap();
        trial.steps()
    };
    let (small, large) = ((224, "image"), (448, "image"));
    assert_eq!(steps(small, 8), [16, 8]);
    assert_eq!(steps(large, 4), [16, 8, 4]);
    assert_eq!(steps(small, 8), [8]);
    assert_eq!(steps(large, 4), [4]);
    assert_eq!(cache.entries().len(), 2);
}
