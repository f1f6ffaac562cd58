//! Caches written by users.

use std::collections::HashMap;
use std::sync::Mutex;

use toma::cache::{Place, Remembered, SizeCache};
use toma::{NoCache, execute};

use crate::caches::kit::{GIB, batch, memory};
use crate::kit::fits;

/// A cache that keeps one size for all calls of a name forever, and records its calls.
#[derive(Debug, Default)]
struct ByName {
    sizes: Mutex<HashMap<String, Remembered>>,
    asked: Mutex<Vec<String>>,
}

impl SizeCache for ByName {
    fn shared() -> &'static Self {
        static SHARED: std::sync::LazyLock<ByName> = std::sync::LazyLock::new(ByName::default);
        &SHARED
    }

    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        self.asked.lock().unwrap().push(format!("recall {}", place.name()));
        self.sizes.lock().unwrap().get(&place.name().to_string()).cloned()
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        let name = place.name().to_string();
        self.asked.lock().unwrap().push(format!("remember {} for {name}", learned.settled));
        self.sizes.lock().unwrap().insert(name, learned);
    }
}

#[toma::batch(initial = 32, cache = ByName, name = "shared by name")]
fn annotated(size: usize, limit: usize) -> Result<usize, toma::classify::OutOfMemory> {
    fits(size, limit).map(|()| size)
}

#[test]
fn a_cache_of_ones_own_is_read_once_and_written_once() {
    assert_eq!(annotated(5).unwrap(), 4);
    let mut tried = Vec::new();
    let with = execute::with::<ByName>().name("shared by name");
    with.range(0..8, 32, |start, end| tried.push(end - start));
    assert_eq!(tried, [4, 4], "the other form of the same name starts where the function ended");
    let asked = ByName::shared().asked.lock().unwrap();
    assert_eq!(
        *asked,
        ["recall shared by name", "remember 4 for shared by name", "recall shared by name"],
        "once each, however many attempts and pieces"
    );
}

/// A cache that reads the free bytes of a call site.
#[derive(Debug, Default)]
struct Looking(Mutex<Option<u64>>);

impl SizeCache for Looking {
    fn shared() -> &'static Self {
        unimplemented!("made by value only")
    }

    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        *self.0.lock().unwrap() = place.free_bytes();
        None
    }

    fn remember(&self, _: &Place<'_>, _: Remembered) {
        unreachable!("nothing fails");
    }
}

#[test]
fn a_place_knows_its_memory() {
    let (cache, memory) = (Looking::default(), memory(3 * GIB));
    batch(&cache, &memory, 8, 8);
    assert_eq!(cache.0.lock().unwrap().take(), Some(3 * GIB));
    memory.cannot_be_read();
    batch(&cache, &memory, 8, 8);
    assert_eq!(cache.0.lock().unwrap().take(), None);
    execute::with::<NoCache>().cache(&cache).batch(8, |_| ());
    assert!(cache.0.lock().unwrap().is_some(), "without a device it is the host's");
}
