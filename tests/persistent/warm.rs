//! A warm call touches no file and allocates nothing.

use std::fs;

use allocation_counter::measure;
use toma::classify::OutOfMemory;
use toma::device::Ladder;
use toma::{NoCache, PersistentCache, execute, report};

use crate::kit::{Folder, Memory};

/// One line that calls; sizes up to `limit` fit.
fn call(cache: &PersistentCache, memory: &Memory, limit: usize) {
    let with = execute::with::<NoCache>().cache(cache).device(memory);
    let with = with.ladder(Ladder::default().without_waiting()).name("a");
    let done = with.batch(100, |size| if size > limit { Err(OutOfMemory::new(None)) } else { Ok(()) });
    assert!(done.is_ok());
}

/// Calls with a cache whose file is replaced by garbage after the first two: a look at the file sets it aside.
fn warm_calls(folder: &Folder, limit: usize) {
    let (cache, memory) = (folder.cache(), Memory::new(40, 80));
    // The first learns or finds, the second looks into the store after that, the third is warm.
    call(&cache, &memory, limit);
    call(&cache, &memory, limit);
    fs::write(folder.file(), "garbage").unwrap();
    let counts = measure(|| (0..1000).for_each(|_| call(&cache, &memory, limit)));
    assert_eq!(counts.count_total, 0);
    assert_eq!(fs::read_to_string(folder.file()).unwrap(), "garbage");
    assert_eq!(folder.aside(), 0);
    assert!(cache.entries().len() < 2);
    assert_eq!(folder.aside(), 1, "a look at the file would have been seen");
}

#[test]
fn after_it_has_learned() {
    let folder = Folder::new();
    warm_calls(&folder, 30);
}

#[test]
fn after_it_has_found_something_in_the_file() {
    let folder = Folder::new();
    call(&folder.cache(), &Memory::new(40, 80), 30);
    assert_eq!(report::last().unwrap().attempts, 3);
    call(&folder.cache(), &Memory::new(40, 80), 30);
    assert_eq!(report::last().unwrap().attempts, 1, "it finds what the other has learned");
    warm_calls(&folder, 30);
}

#[test]
fn where_nothing_is_known() {
    let folder = Folder::new();
    warm_calls(&folder, 100);
}
