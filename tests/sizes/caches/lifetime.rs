//! Values captured by bodies are not kept alive, and a dropped cache leaves nothing behind.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use toma::cache::SizeCache;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::caches::kit::{GIB, apart, batch, memory};

/// An error that holds a reference to `held`.
#[derive(Debug)]
struct Holding(#[expect(dead_code, reason = "held, not read")] Arc<()>);

impl fmt::Display for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CUDA out of memory. Tried to allocate 2.00 GiB")
    }
}

impl Error for Holding {}

/// Makes calls that capture `held` in every option that can capture.
fn capture(cache: &dyn SizeCache, held: &Arc<()>) {
    let memory = memory(GIB);
    let [body, undo, seen, key] = [(); 4].map(|()| Arc::clone(held));
    let observer = move |_: &toma::observe::Event<'_>| drop(Arc::clone(&seen));
    let with =
        execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart()).key(key).observer(&observer);
    with.before_retry(move |_| drop(Arc::clone(&undo)))
        .batch(32, move |size| if size > 8 { Err(Holding(Arc::clone(&body))) } else { Ok(()) })
        .unwrap();
}

fn panics(cache: &dyn SizeCache, held: &Arc<()>) {
    let memory = memory(GIB);
    let body = Arc::clone(held);
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart());
    with.range(0..32, 32, move |start, end| {
        if end - start > 8 {
            std::panic::panic_any(Box::new(Holding(Arc::clone(&body))) as Box<dyn Error + Send + Sync>);
        }
    });
}

fn gives_up(cache: &dyn SizeCache, held: &Arc<()>) {
    let body = Arc::clone(held);
    let memory = memory(GIB);
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart());
    let error = with.fold(0..32, 32, Arc::clone(held), move |_, _, _| Err(Holding(Arc::clone(&body))));
    drop(error.unwrap_err());
}

#[test]
fn nothing_captured_is_kept_alive() {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    let held = Arc::new(());
    for cache in [&global as &dyn SizeCache, &stacktrace, &NoCache] {
        for call in [capture, panics, gives_up] {
            call(cache, &held);
            assert_eq!(Arc::strong_count(&held), 1);
            call(cache, &held);
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }
    assert!(!stacktrace.entries().is_empty());
    assert!(toma::report::last().is_some());
}

#[test]
fn two_instances_do_not_mix() {
    let memory = memory(GIB);
    let (one, other) = (StacktraceMemoryCache::new(), StacktraceMemoryCache::new());
    let (third, fourth) = (GlobalCache::new(), GlobalCache::new());
    for _ in 0..3 {
        let caches = [&one as &dyn SizeCache, &other, &third, &fourth];
        let last = [8, 4, 2, 1];
        for (cache, limit) in caches.into_iter().zip(last) {
            assert_eq!(batch(cache, &memory, 8, limit).last(), Some(&limit));
        }
        for (cache, limit) in caches.into_iter().zip(last) {
            assert_eq!(batch(cache, &memory, 8, 8), [limit]);
        }
    }
}

#[test]
fn an_instance_at_the_address_of_another_knows_nothing_of_it() {
    fn address(cache: &GlobalCache) -> usize {
        std::ptr::from_ref(cache).addr()
    }
    let memory = memory(GIB);
    let slot = RefCell::new(GlobalCache::new());
    let before = address(&slot.borrow());
    for pass in 0..10 {
        *slot.borrow_mut() = GlobalCache::new();
        let cache = slot.borrow();
        assert_eq!(address(&cache), before);
        assert_eq!(batch(&*cache, &memory, 32, 8), [32, 16, 8], "pass {pass}");
        assert_eq!(batch(&*cache, &memory, 32, 8), [8]);
    }
}
