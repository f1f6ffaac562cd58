//! A warm call touches no file and allocates nothing.

use std::fs;

use allocation_counter::measure;
use toma::classify::OutOfMemory;
use toma::{NoCache, PersistentCache, execute, report};

use crate::kit::{Folder, order};

/// Calls at one call site, where sizes up to `limit` fit. Returns the number of attempts.
fn call(cache: &PersistentCache, limit: usize) -> usize {
    let with = execute::with::<NoCache>().cache(cache).name("a");
    with.batch(100, |size| if size > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }).unwrap();
    report::last().unwrap().attempts
}

#[test]
fn a_warm_call_touches_no_file_and_allocates_nothing() {
    let Some(path) = order() else {
        let (folder, test) = (Folder::new(), "warm::a_warm_call_touches_no_file_and_allocates_nothing");
        let lines = folder.child(test, folder.file().to_str().unwrap());
        let begins = lines.iter().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>();
        return assert_eq!(begins, ["warm", "toma:"].repeat(3), "each complains once it looks: {lines:?}");
    };
    let [learner, finder, knows_nothing] = [(); 3].map(|()| PersistentCache::at(&path));
    // The first call looks for the file, the second one looks into the store after that, and the third one is warm.
    assert_eq!([(); 2].map(|()| call(&knows_nothing, 100)), [1, 1]);
    assert_eq!([(); 2].map(|()| call(&learner, 30)), [3, 1]);
    assert_eq!([(); 2].map(|()| call(&finder, 30)), [1, 1]);
    fs::write(path, "garbage").unwrap();
    for (cache, limit) in [(learner, 30), (finder, 30), (knows_nothing, 100)] {
        let counts = measure(|| (0..1000).for_each(|_| assert_eq!(call(&cache, limit), 1)));
        assert_eq!(counts.count_total, 0);
        eprintln!("warm");
        call(&cache, 10);
    }
}
