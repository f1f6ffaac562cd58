//! Tests which calls share an entry of the cache.

use std::borrow::Cow;

use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::caches::kit::{GIB, apart};
use crate::executor::block_on;
use crate::kit::{Memory, fits};

/// Memory with fixed figures, so that nothing of the machine is read.
static MEMORY: Memory = Memory::named("fixed", GIB, 80 * GIB);

/// Makes a call that settles, and returns the number of its attempts: 3 when no size was known, 1 when it shared the
/// size that another call learned.
macro_rules! call {
    ($cache:expr) => {{
        let with = execute::with::<NoCache>().cache($cache).device(&MEMORY).ladder(apart());
        attempts(with.batch(32, |size| fits(size, 8)))
    }};
}

/// Returns the number of attempts of the call that has just succeeded.
fn attempts<T>(done: Result<T, OutOfMemory>) -> usize {
    drop(done.unwrap());
    toma::report::last().unwrap().attempts
}

const MISS: usize = 3;
const HIT: usize = 1;

mod global {
    use super::*;

    static SIZES: GlobalCache = GlobalCache::new();

    #[toma::batch(initial = 32, cache = &SIZES, device = MEMORY, ladder = apart())]
    fn one(size: usize) -> Result<(), OutOfMemory> {
        fits(size, 8)
    }

    /// Defines two functions with one line, one column and one path.
    macro_rules! two_of_one_line {
        () => {
            impl First {
                #[toma::batch(initial = 32, cache = &SIZES, device = MEMORY, ladder = apart())]
                fn run(size: usize) -> Result<(), OutOfMemory> {
                    fits(size, 8)
                }
            }
            impl Second {
                #[toma::batch(initial = 32, cache = &SIZES, device = MEMORY, ladder = apart())]
                fn run(size: usize) -> Result<(), OutOfMemory> {
                    fits(size, 8)
                }
            }
        };
    }

    struct First;
    struct Second;
    two_of_one_line!();

    #[test]
    fn a_function_has_one_entry_wherever_it_is_called() {
        assert_eq!(attempts(one()), MISS);
        assert_eq!(attempts(one()), HIT);
        let elsewhere = std::thread::spawn(|| attempts(one()));
        assert_eq!(elsewhere.join().unwrap(), HIT);
    }

    #[test]
    fn two_functions_of_one_macro_line_do_not_share() {
        assert_eq!(attempts(First::run()), MISS);
        assert_eq!(attempts(Second::run()), MISS);
        assert_eq!(attempts(First::run()), HIT);
        assert_eq!(attempts(Second::run()), HIT);
    }
}

mod stacktrace {
    use super::*;

    #[inline(never)]
    fn inner(sizes: &StacktraceMemoryCache) -> usize {
        call!(sizes)
    }

    #[inline(never)]
    fn train(sizes: &StacktraceMemoryCache) -> usize {
        std::hint::black_box(inner(sizes))
    }

    /// The code after the call differs from `train`, or the two functions would be merged.
    #[inline(never)]
    fn evaluate(sizes: &StacktraceMemoryCache) -> usize {
        let attempts = inner(sizes);
        std::hint::black_box(sizes);
        attempts
    }

    #[test]
    fn two_chains_of_functions_differ() {
        let sizes = StacktraceMemoryCache::new();
        assert_eq!([train(&sizes), evaluate(&sizes)], [MISS, MISS]);
        assert_eq!([train(&sizes), evaluate(&sizes)], [HIT, HIT]);
        assert_eq!(inner(&sizes), MISS);
    }

    #[inline(never)]
    fn recurse(sizes: &StacktraceMemoryCache, depth: usize) -> usize {
        if depth == 0 {
            return call!(sizes);
        }
        std::hint::black_box(recurse(sizes, depth - 1))
    }

    #[test]
    fn recursion_depths_differ_up_to_the_limit() {
        let sizes = StacktraceMemoryCache::new();
        let limit = toma_core::stack::FRAME_LIMIT;
        let depths = || (0..limit + 8).map(|depth| recurse(&sizes, depth)).collect::<Vec<_>>();
        let first = depths();
        assert_eq!(first[..limit], vec![MISS; limit]);
        assert_eq!(first[limit..], [HIT; 8]);
        assert_eq!(depths(), vec![HIT; limit + 8]);
    }

    #[test]
    fn threads_spawned_at_one_place_share() {
        let sizes = StacktraceMemoryCache::new();
        let call = |()| std::thread::scope(|scope| scope.spawn(|| call!(&sizes)).join().unwrap());
        assert_eq!([(); 4].map(call), [MISS, HIT, HIT, HIT]);
    }

    static SIZES: StacktraceMemoryCache = StacktraceMemoryCache::new();

    #[toma::batch(initial = 32, cache = &SIZES, device = MEMORY, ladder = apart(), key = image)]
    async fn task(size: usize, image: usize) -> Result<(), OutOfMemory> {
        fits(size, 8)
    }

    #[toma::batch(initial = 32, cache = &SIZES, device = MEMORY, ladder = apart())]
    async fn other_task(size: usize) -> Result<(), OutOfMemory> {
        fits(size, 8)
    }

    #[inline(never)]
    fn elsewhere() -> usize {
        std::hint::black_box(attempts(block_on(task(7))))
    }

    #[test]
    fn async_functions_have_one_entry_for_each_key() {
        assert_eq!(attempts(block_on(task(7))), MISS);
        assert_eq!(attempts(block_on(task(7))), HIT, "another line");
        assert_eq!(elsewhere(), HIT, "another chain");
        assert_eq!(std::thread::spawn(elsewhere).join().unwrap(), HIT, "another thread");
        assert_eq!(attempts(block_on(task(8))), MISS, "another key");
        assert_eq!(attempts(block_on(other_task())), MISS, "another function");
    }
}

#[test]
fn an_inline_form_has_one_entry_for_each_line() {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    for cache in [&global as &dyn toma::cache::SizeCache, &stacktrace] {
        for pass in 0..3 {
            let expected = if pass == 0 { MISS } else { HIT };
            assert_eq!(call!(cache), expected);
            assert_eq!(call!(cache), expected);
        }
    }
    assert_eq!([global.entries().len(), stacktrace.entries().len()], [2, 2]);
}

/// Makes calls with these options at one call site.
fn one_line(
    cache: &dyn toma::cache::SizeCache,
    memory: &Memory,
    key: Cow<'_, str>,
    name: &'static str,
) -> usize {
    let with = execute::with::<NoCache>().cache(cache).device(memory).ladder(apart()).key(key).name(name);
    attempts(with.batch(32, |size| fits(size, 8)))
}

#[test]
fn keys_separate() {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    for cache in [&global as &dyn toma::cache::SizeCache, &stacktrace] {
        assert_eq!(one_line(cache, &MEMORY, "224".into(), "a"), MISS);
        assert_eq!(one_line(cache, &MEMORY, "112".into(), "a"), MISS);
        assert_eq!(one_line(cache, &MEMORY, "".into(), "a"), MISS);
        assert_eq!(one_line(cache, &MEMORY, "224".into(), "a"), HIT);
        assert_eq!(one_line(cache, &MEMORY, "112".into(), "a"), HIT);
        assert_eq!(
            one_line(cache, &MEMORY, String::from("224").into(), "a"),
            HIT,
            "equal values, equal keys"
        );
    }
}

#[test]
fn devices_separate_by_name() {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    let [zero, one, also_zero] =
        ["cuda:0", "cuda:1", "cuda:0"].map(|name| Memory::named(name, GIB, 80 * GIB));
    for cache in [&global as &dyn toma::cache::SizeCache, &stacktrace] {
        assert_eq!(one_line(cache, &zero, "".into(), "a"), MISS);
        assert_eq!(one_line(cache, &one, "".into(), "a"), MISS);
        assert_eq!(one_line(cache, &also_zero, "".into(), "a"), HIT);
    }
}

#[test]
fn names_do_not_separate() {
    let sizes = GlobalCache::new();
    assert_eq!(one_line(&sizes, &MEMORY, "".into(), "a"), MISS);
    assert_eq!(one_line(&sizes, &MEMORY, "".into(), "b"), HIT);
}
