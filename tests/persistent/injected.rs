//! Injected failures are no evidence: a test suite that is run with them leaves the user's sizes alone.

use std::fs;

use toma::cache::SizeCache;
use toma::testing::inject;
use toma::{Bisect, GlobalCache, NoCache, PersistentCache, execute};

use crate::child;
use crate::executor::block_on;
use crate::kit::{Folder, Memory, batch, batch_on};

/// The sizes of calls that really fit whatever they try.
fn calls(cache: &dyn SizeCache) {
    for pass in 0..50 {
        batch(cache, &format!("new {}", pass % 5), 100, usize::MAX);
        batch(cache, "known", 100, usize::MAX);
        assert_eq!(toma::report::last().unwrap().start, 25, "where the file says");
        let memory = Memory::new(40, 80);
        batch_on(cache, &memory, "smaller", (64, usize::MAX));
        let with = || execute::with::<NoCache>().cache(cache).device(&memory);
        with().name("range").range(0..100, 50, |_, _| ());
        with().name("bisected").policy(Bisect::default()).range(0..100, 50, |_, _| ());
    }
}

#[test]
fn a_run_with_injected_failures_leaves_a_real_file_untouched() {
    if let Some(path) = child::order() {
        let cache = PersistentCache::at(path);
        calls(&cache);
        cache.flush();
        return;
    }
    let folder = Folder::new();
    batch(&folder.cache(), "known", 100, 30);
    let seen = |folder: &Folder| (folder.text(), fs::metadata(folder.file()).unwrap().modified().unwrap());
    let before = seen(&folder);
    let test = "injected::a_run_with_injected_failures_leaves_a_real_file_untouched";
    let order = folder.file().display().to_string();
    let output = child::command(test, &order, folder.path()).env("TOMA_INJECT", "0.9,7").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("injecting out of memory"), "{said}");
    assert_eq!(seen(&folder), before);
}

#[test]
fn a_call_with_an_injected_failure_remembers_nothing() {
    let (folder, global) = (Folder::new(), GlobalCache::new());
    let persistent = folder.cache();
    for cache in [&global as &dyn SizeCache, &persistent] {
        let injection = inject::above(20);
        assert_eq!(batch(cache, "a", 100, usize::MAX), [12], "sizes that are refused do not run");
        assert_eq!(injection.failures(), 3);
        assert_eq!(toma::report::last().unwrap().settled, None);
        drop(injection);
        assert_eq!(batch(cache, "a", 100, usize::MAX), [100]);
        assert_eq!(batch(cache, "a", 100, 30), [100, 50, 25], "real failures are remembered");
        let _injection = inject::above(20);
        assert_eq!(batch(cache, "a", 100, 30), [12], "and stay so");
    }
    assert!(folder.text().contains("\"settled\": 25"), "{}", folder.text());
    assert_eq!(global.entries()[0].remembered.settled, 25);
}

/// The same around the loop that fails, and in async functions.
#[test]
fn neither_does_a_call_that_awaits() {
    #[toma::batch(initial = 64, cache = &*cache)]
    async fn awaits(size: usize, cache: &GlobalCache) -> usize {
        size
    }

    let cache = GlobalCache::new();
    let injection = inject::above(20);
    assert_eq!(block_on(awaits(&cache)), 16);
    drop(injection);
    assert_eq!((block_on(awaits(&cache)), cache.entries().len()), (64, 0));
}
