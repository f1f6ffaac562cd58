//! Injected failures are no evidence: a test suite that runs with them leaves the learned sizes of the user unchanged.

use toma::cache::SizeCache;
use toma::testing::inject;
use toma::{Bisect, GlobalCache, NoCache, PersistentCache, execute, report};

use crate::child;
use crate::executor::block_on;
use crate::kit::{Folder, batch, order};

#[test]
fn a_run_with_injected_failures_leaves_a_real_file_untouched() {
    let Some(path) = order() else {
        let (folder, test) =
            (Folder::new(), "injected::a_run_with_injected_failures_leaves_a_real_file_untouched");
        batch(&folder.cache(), "known", 100, 30);
        let seen = || (folder.text(), folder.file().metadata().unwrap().modified().unwrap());
        let (before, path) = (seen(), folder.file());
        let settings = [&folder.settings(path.to_str().unwrap())[..], &[("TOMA_INJECT", "0.9,7")]].concat();
        let lines = child::run(test, &settings).unwrap().passed();
        assert!(lines[0].contains("injecting out of memory"), "{lines:?}");
        return assert_eq!(seen(), before);
    };
    // The sizes of calls whose every attempt really fits.
    let cache = PersistentCache::at(path);
    for pass in 0..50 {
        batch(&cache, &format!("new {}", pass % 5), 100, usize::MAX);
        batch(&cache, "known", 100, usize::MAX);
        assert_eq!(report::last().unwrap().start, 25, "where the file says");
        let with = || execute::with::<NoCache>().cache(&cache);
        with().name("range").range(0..100, 50, |_, _| ());
        with().name("bisected").policy(Bisect::default()).range(0..100, 50, |_, _| ());
    }
}

#[test]
fn a_call_with_an_injected_failure_remembers_nothing() {
    #[toma::batch(initial = 100, cache = &*cache)]
    async fn awaits(size: usize, cache: &dyn SizeCache) -> usize {
        size
    }

    let (folder, global) = (Folder::new(), GlobalCache::new());
    let persistent = folder.cache();
    for cache in [&global as &dyn SizeCache, &persistent] {
        let injection = inject::above(20);
        assert_eq!(batch(cache, "a", 100, usize::MAX), [12], "sizes that are refused do not run");
        assert_eq!((report::last().unwrap().settled, block_on(awaits(cache))), (None, 12));
        drop(injection);
        assert_eq!(block_on(awaits(cache)), 100);
        assert_eq!(batch(cache, "a", 100, 30), [100, 50, 25], "real failures are remembered");
        let _injection = inject::above(20);
        assert_eq!(batch(cache, "a", 100, 30), [12]);
    }
    assert_eq!(persistent.entries()[0].remembered.settled, 25);
    assert_eq!(global.entries()[0].remembered.settled, 25);
}
