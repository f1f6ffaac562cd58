//! Persistent caches chosen by type, in every form: the second process starts at the last size of the first.

use std::cell::RefCell;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::{PersistentCache, execute};

use crate::executor::block_on;
use crate::kit::{Folder, order};

thread_local! {
    static TRIED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn attempt(size: usize) -> Result<(), OutOfMemory> {
    TRIED.with_borrow_mut(|tried| tried.push(size));
    if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

#[toma::batch(initial = 16, cache = PersistentCache)]
fn batch(size: usize) -> Result<(), OutOfMemory> {
    attempt(size)
}

#[toma::range(initial = 16, cache = PersistentCache)]
fn range(start: usize, end: usize) -> Result<(), OutOfMemory> {
    attempt(end - start)
}

#[toma::chunked(initial = 16, cache = PersistentCache)]
fn chunked(data: &[u8], _start: usize, _end: usize) -> Result<(), OutOfMemory> {
    attempt(data.len())
}

#[toma::batch(initial = 16, cache = PersistentCache)]
async fn asynchronous(size: usize) -> Result<(), OutOfMemory> {
    attempt(size)
}

/// The inline forms, by type.
macro_rules! with {
    () => {
        execute::with::<PersistentCache>()
    };
}

const FORMS: [fn(); 9] = [
    || batch().unwrap(),
    || range(0, 16).unwrap(),
    || chunked(&[0; 16]).unwrap(),
    || block_on(asynchronous()).unwrap(),
    || with!().batch(16, attempt).unwrap(),
    || with!().range(0..16, 16, |start, end| attempt(end - start)).unwrap(),
    || with!().chunked(&[0_u8; 16][..], 16, |chunk, _, _| attempt(chunk.len())).unwrap(),
    || drop(with!().map(0..16, 16, |start, end| attempt(end - start)).unwrap()),
    || with!().fold(0..16, 16, (), |(), start, end| attempt(end - start)).unwrap(),
];

#[test]
fn every_form_remembers_across_processes() {
    let Some(first) = order() else {
        let (home, test) = (Folder::new(), "forms::every_form_remembers_across_processes");
        return ["16", "4"].iter().for_each(|first| assert!(home.child(test, first).is_empty()));
    };
    for (i, form) in FORMS.iter().enumerate() {
        form();
        assert_eq!(TRIED.take()[0].to_string(), first, "form {i}");
    }
    let entries = PersistentCache::shared().entries();
    let (begin, version) = ("persistent::forms::batch: size 4 on host of ", env!("CARGO_PKG_VERSION"));
    let (attribute, end) =
        (entries[0].to_string(), format!("tests/persistent/forms.rs:21:1, version {version}"));
    assert!(attribute.starts_with(begin) && attribute.ends_with(&end), "{attribute}");
    assert!(entries[8].name.contains("forms.rs:") && entries[8].program.is_some(), "{}", entries[8]);
}
