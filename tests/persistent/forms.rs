//! Chosen by type, in every form: the second process starts where the first one ended.

use std::cell::RefCell;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::{PersistentCache, execute};

use crate::child;
use crate::executor::block_on;
use crate::kit::Folder;

thread_local! {
    static TRIED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn attempt(size: usize) -> Result<(), OutOfMemory> {
    TRIED.with_borrow_mut(|tried| tried.push(size));
    if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

fn length(start: i64, end: i64) -> usize {
    usize::try_from(end - start).unwrap()
}

#[toma::batch(initial = 16, cache = PersistentCache)]
fn batch(size: usize) -> Result<(), OutOfMemory> {
    attempt(size)
}

#[toma::range(initial = 16, cache = PersistentCache)]
fn range(start: i64, end: i64) -> Result<(), OutOfMemory> {
    attempt(length(start, end))
}

#[toma::chunked(initial = 16, cache = PersistentCache)]
fn chunked(data: &[u8], _start: usize, _end: usize) -> Result<(), OutOfMemory> {
    attempt(data.len())
}

#[toma::batch(initial = 16, cache = PersistentCache)]
async fn asynchronous(size: usize) -> Result<(), OutOfMemory> {
    attempt(size)
}

#[toma::batch(initial = 16, cache = &*sizes)]
fn by_value(size: usize, sizes: &PersistentCache) -> Result<(), OutOfMemory> {
    attempt(size)
}

/// The inline forms, by type.
macro_rules! with {
    () => {
        execute::with::<PersistentCache>()
    };
}

const FORMS: [fn(); 10] = [
    || batch().unwrap(),
    || range(0, 16).unwrap(),
    || chunked(&[0; 16]).unwrap(),
    || block_on(asynchronous()).unwrap(),
    || by_value(PersistentCache::shared()).unwrap(),
    || with!().batch(16, attempt).unwrap(),
    || with!().range(0..16, 16, |start, end| attempt(end - start)).unwrap(),
    || with!().chunked(&[0_u8; 16][..], 16, |chunk, _, _| attempt(chunk.len())).unwrap(),
    || drop(with!().map(0..16, 16, |start, end| attempt(end - start)).unwrap()),
    || with!().fold(0..16, 16, (), |(), start, end| attempt(end - start)).unwrap(),
];

#[test]
fn every_form_remembers_across_processes() {
    if let Some(first) = child::order() {
        for (i, form) in FORMS.iter().enumerate() {
            form();
            let tried = TRIED.take();
            assert_eq!(tried[0].to_string(), first, "form {i}: {tried:?}");
        }
        return;
    }
    let home = Folder::new();
    let test = "forms::every_form_remembers_across_processes";
    for first in ["16", "4"] {
        let said = child::run(test, first, home.path());
        assert!(said.is_empty(), "{said:?}");
    }
}

#[test]
fn attributes_are_kept_by_path_line_and_version_of_their_crate() {
    if child::order().is_some() {
        batch().unwrap();
        with!().batch(16, attempt).unwrap();
        let mut entries = PersistentCache::shared().entries();
        entries.sort_by_key(|entry| entry.program.is_some());
        let [attribute, inline] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!(attribute.name, "persistent::forms::batch");
        assert_eq!(attribute.crate_version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
        assert!(attribute.place.as_ref().is_some_and(|place| place.contains("forms.rs:")));
        assert!(inline.crate_version.is_none() && inline.name.contains("forms.rs:"));
        assert_eq!((attribute.device.as_str(), inline.device.as_str()), ("host", "host"));
        return;
    }
    let home = Folder::new();
    child::run("forms::attributes_are_kept_by_path_line_and_version_of_their_crate", "", home.path());
}

#[test]
fn as_the_cache_of_all_calls_that_name_none() {
    #[toma::batch(initial = 16)]
    fn names_none(size: usize) -> Result<(), OutOfMemory> {
        attempt(size)
    }

    if let Some(first) = child::order() {
        toma::cache::set_default::<PersistentCache>();
        names_none().unwrap();
        assert_eq!(TRIED.take()[0].to_string(), first);
        return;
    }
    let home = Folder::new();
    for first in ["16", "4"] {
        child::run("forms::as_the_cache_of_all_calls_that_name_none", first, home.path());
    }
}
