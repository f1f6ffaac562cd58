//! Reading the entries of a cache, filling it in advance, and clearing it.

use std::sync::Barrier;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::caches::kit::{GIB, apart, batch, memory};
use crate::executor::block_on;
use crate::kit::{Memory, fits};

/// Common interface of the caches whose entries can be read.
trait Sizes: SizeCache {
    fn entries(&self) -> Vec<toma::cache::Entry>;
    fn seed(&self, name: &str, size: usize);
    fn clear(&self);
}

macro_rules! sizes {
    ($($cache:ty),*) => {$(
        impl Sizes for $cache {
            fn entries(&self) -> Vec<toma::cache::Entry> {
                <$cache>::entries(self)
            }

            fn seed(&self, name: &str, size: usize) {
                <$cache>::seed(self, name, size);
            }

            fn clear(&self) {
                <$cache>::clear(self);
            }
        }
    )*};
}

sizes!(GlobalCache, StacktraceMemoryCache);

fn with_each(test: impl Fn(&dyn Sizes, &dyn SizeCache)) {
    let (global, stacktrace) = (GlobalCache::default(), StacktraceMemoryCache::default());
    test(&global, &global);
    test(&stacktrace, &stacktrace);
}

#[test]
fn a_seed_of_a_given_name_is_where_calls_start() {
    with_each(|sizes, cache| {
        let memory = memory(GIB);
        sizes.seed("batch", 4);
        assert_eq!(batch(cache, &memory, 32, 8), [4]);
        assert!(sizes.entries().is_empty(), "a seed is no evidence");
        assert_eq!(batch(cache, &memory, 32, 2), [4, 2], "until they learn better");
        assert_eq!(batch(cache, &memory, 32, 2), [2]);
        sizes.seed("batch", 16);
        assert_eq!(batch(cache, &memory, 32, 8), [2], "what was learned counts more");
        sizes.seed("another", 16);
        assert_eq!(batch(cache, &memory, 3, 8), [2]);
    });
}

#[test]
fn a_seed_is_seen_by_a_place_that_was_looked_up_before() {
    with_each(|sizes, cache| {
        let memory = memory(GIB);
        assert_eq!(batch(cache, &memory, 32, 32), [32]);
        sizes.seed("batch", 8);
        assert_eq!(batch(cache, &memory, 32, 32), [8]);
        sizes.seed("batch", 16);
        assert_eq!(batch(cache, &memory, 32, 32), [16], "the last seed counts");
        sizes.seed("batch", 0);
        assert_eq!(batch(cache, &memory, 32, 32), [1], "no size is under the floor");
        sizes.seed("batch", usize::MAX);
        assert_eq!(batch(cache, &memory, 32, 32), [32], "nor over the initial one");
    });
}

static SEEDED: StacktraceMemoryCache = StacktraceMemoryCache::new();

#[toma::batch(initial = 32, cache = &SEEDED)]
fn annotated(size: usize) -> usize {
    size
}

#[toma::batch(initial = 32, cache = &SEEDED)]
async fn annotated_async(size: usize) -> usize {
    size
}

struct Model;

impl Model {
    #[toma::batch(initial = 32, cache = &SEEDED)]
    fn method(&self, size: usize) -> usize {
        size
    }
}

#[test]
fn a_seed_names_a_function_by_its_path_and_an_inline_form_by_its_line() {
    let name = |name| format!("{}::{name}", module_path!());
    SEEDED.seed(name("annotated"), 2);
    SEEDED.seed(name("annotated_async"), 3);
    SEEDED.seed(name("method"), 4);
    assert_eq!((annotated(), Model.method()), (2, 4));
    assert_eq!(block_on(annotated_async()), 3);
    SEEDED.seed(format!("{}:{}", file!(), line!() + 1), 5);
    assert_eq!(execute::with::<NoCache>().cache(&SEEDED).batch(32, |size| size), 5);
}

#[test]
fn clearing_forgets_everything_everywhere() {
    with_each(|sizes, cache| {
        let memory = memory(GIB);
        batch(cache, &memory, 32, 8);
        sizes.seed("batch", 4);
        let (learned, cleared) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                batch(cache, &memory, 32, 2);
                learned.wait();
                cleared.wait();
                batch(cache, &memory, 32, 32)
            });
            learned.wait();
            sizes.clear();
            cleared.wait();
            assert_eq!(other.join().unwrap(), [32]);
        });
        assert!(sizes.entries().is_empty());
        assert_eq!(batch(cache, &memory, 32, 32), [32]);
    });
}

/// Returns the number of attempts of a call with this key which fits up to `limit`.
fn attempts(cache: &dyn SizeCache, key: usize, limit: usize) -> usize {
    let (memory, mut attempts) = (memory(GIB), 0);
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart()).key(key);
    with.batch(32, |size| {
        attempts += 1;
        fits(size, limit)
    })
    .unwrap();
    attempts
}

/// Returns the number of `keys` that are known to start at 8.
fn known(cache: &dyn SizeCache, keys: std::ops::Range<usize>) -> usize {
    fitting(cache, keys, 8)
}

/// Returns the number of calls with these keys that succeed at once, when sizes up to `limit` fit.
#[inline(never)]
fn fitting(cache: &dyn SizeCache, keys: std::ops::Range<usize>, limit: usize) -> usize {
    keys.filter(|&key| attempts(cache, key, limit) == 1).count()
}

const MAX_ENTRIES: usize = 4096;

#[test]
fn those_learned_longest_ago_go_first() {
    with_each(|sizes, cache| {
        assert_eq!(known(cache, 0..MAX_ENTRIES), 0);
        assert_eq!(sizes.entries().len(), MAX_ENTRIES);
        assert_eq!(known(cache, MAX_ENTRIES..MAX_ENTRIES + 1), 0);
        let (gone, all) = (MAX_ENTRIES / 16, MAX_ENTRIES + 1);
        assert_eq!(sizes.entries().len(), all - gone);
        assert_eq!(known(cache, gone..all), all - gone, "the others are there");
        assert_eq!(known(cache, 0..gone), 0);
    });
}

#[test]
fn an_entry_that_is_learned_anew_is_the_newest() {
    with_each(|sizes, cache| {
        fitting(cache, 0..MAX_ENTRIES, 8);
        assert_eq!(fitting(cache, 0..1, 4), 0, "less fits now, and it learns again");
        assert_eq!(sizes.entries()[0].remembered.settled, 4);
        fitting(cache, MAX_ENTRIES..MAX_ENTRIES + 10, 8);
        assert_eq!(fitting(cache, 0..1, 4), 1);
        assert_eq!(fitting(cache, 1..11, 8), 0);
    });
}

#[test]
fn entries_describe_their_call() {
    let (sizes, memory) = (StacktraceMemoryCache::new(), Memory::named("cuda:0", 3 * GIB, 80 * GIB));
    let line = line!() + 2;
    let with = execute::with::<NoCache>().cache(&sizes).device(&memory).ladder(apart()).key((224, 224));
    with.batch(32, |size| fits(size, 8)).unwrap();
    let [entry] = &sizes.entries()[..] else { panic!("one entry") };
    assert_eq!(entry.name, format!("{}:{line}", file!()));
    let shown = format!("{entry}");
    let expected = [
        &format!("{}:{line}: size 8 with 3.0 GiB free", file!()),
        &format!("called at {}:{line}:10", file!()),
        "key 0x",
        "device 0x",
        "stack 0x",
    ];
    for part in expected {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
    assert_eq!(shown.lines().count(), 1);
}

#[inline(never)]
fn train(sizes: &StacktraceMemoryCache) {
    batch(sizes, &memory(GIB), 32, 8);
    std::hint::black_box(sizes);
}

#[inline(never)]
fn evaluate(sizes: &StacktraceMemoryCache) {
    batch(sizes, &memory(2 * GIB), 32, 4);
    std::hint::black_box((sizes, 1));
}

#[test]
fn entries_and_reports_name_the_callers_of_a_size() {
    let sizes = StacktraceMemoryCache::new();
    let callers: [fn(&StacktraceMemoryCache); 2] = [train, evaluate];
    for (call, name) in callers.into_iter().zip(["train", "evaluate"]) {
        call(&sizes);
        let entry = &sizes.entries()[0];
        let names = entry.callers.names();
        // With little debug information a name may lack its path, and in optimized code it may be that of the caller.
        let own = "entries_and_reports_name_the_callers_of_a_size";
        assert!(names[1].ends_with(name) && names[2].contains(own), "{names:?}");
        assert!(entry.to_string().ends_with(&format!(", in {}", names.join(" < "))), "{entry}");
        let report = toma::report::last().unwrap();
        assert_eq!(report.callers, entry.callers);
        assert!(report.to_string().ends_with(&format!("\n  callers  {}", entry.callers)), "{report}");
    }
}

/// An entry that holds for all callers, or for those of an executor, names no caller.
#[test]
fn entries_that_count_for_all_callers_name_none() {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    batch(&global, &memory(GIB), 32, 8);
    let values =
        execute::with::<NoCache>().cache(&stacktrace).iter(0..32, 32, |start, end| fits(end - start, 8));
    values.for_each(|value| value.unwrap());
    for entries in [global.entries(), stacktrace.entries()] {
        assert!(entries.len() == 1 && entries[0].callers.is_empty(), "{entries:?}");
    }
    assert!(toma::report::last().unwrap().callers.is_empty());
}

#[test]
fn entries_of_a_global_cache_are_short() {
    static SIZES: GlobalCache = GlobalCache::new();

    #[toma::batch(initial = 32, cache = &SIZES, name = "short")]
    fn annotated(size: usize) -> Result<(), OutOfMemory> {
        fits(size, 8)
    }

    annotated().unwrap();
    let [entry] = &SIZES.entries()[..] else { panic!("one entry") };
    let (path, file) = (module_path!(), file!());
    let shown = format!("{entry}");
    assert!(shown.starts_with(&format!("short: size 8, {path}::annotated ({file}:")), "{shown}");
    let key = format!("{:?}", entry.key);
    assert!(key.contains("annotated") && !key.contains("None"), "{key}");
}
