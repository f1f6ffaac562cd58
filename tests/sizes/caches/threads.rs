//! Many threads on one cache.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::caches::kit::{AnyStack, GIB, apart, memory, settled};
use crate::kit::Memory;

const INITIAL: usize = 1 << 12;
const THREADS: usize = 8;
const CALLS: usize = 2_000;
/// Maximum number of entries of a cache.
const MOST: usize = 4096;

fn call(cache: &dyn SizeCache, key: usize, memory: &Memory, limit: usize) -> (usize, Option<usize>) {
    let mut tried = Vec::new();
    let with = execute::with::<NoCache>().cache(cache).device(memory).ladder(apart()).key(key);
    let ended = with.batch(INITIAL, |size| {
        tried.push(size);
        if size > limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    let learned = ended.is_ok() && tried.len() > 1;
    (tried[0], learned.then(|| tried[tried.len() - 1]))
}

/// Returns the sizes that calls of all threads have settled, of each key.
fn hammer(cache: &dyn SizeCache, keys: usize, clear: &(dyn Fn() + Sync)) -> Vec<Mutex<Vec<usize>>> {
    let seen: Vec<_> = (0..keys).map(|_| Mutex::new(Vec::new())).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let seen = &seen;
            scope.spawn(move || {
                let (mut random, memory) = (fastrand::Rng::with_seed(thread as u64), memory(GIB));
                for pass in 0..CALLS {
                    let key = random.usize(..keys);
                    let limit = if random.u8(..50) == 0 { 0 } else { 1 << random.u8(..13) };
                    let (start, learned) = call(cache, key, &memory, limit);
                    // A size at which nothing ever succeeded would be a torn or invented one.
                    assert!(start.is_power_of_two() && start <= INITIAL, "started at {start}");
                    if let Some(size) = learned {
                        seen[key].lock().unwrap().push(size);
                    }
                    if thread == 0 && pass % 64 == 0 {
                        clear();
                    }
                }
            });
        }
    });
    seen
}

#[test]
fn threads_learn_and_recall_at_once() {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    for keys in [1, 3, 200] {
        for cache in [&global as &dyn SizeCache, &stacktrace] {
            hammer(cache, keys, &|| ());
        }
        for entries in [global.entries(), stacktrace.entries()] {
            assert!(entries.len() <= keys, "{} entries of {keys} keys", entries.len());
            for entry in entries {
                let bounds = entry.remembered.bounds;
                assert!(entry.remembered.settled.is_power_of_two(), "{entry:?}");
                assert!(bounds.largest_success >= Some(entry.remembered.settled), "{entry:?}");
                assert!(bounds.smallest_failure.is_none_or(|failed| Some(failed) > bounds.largest_success));
            }
        }
        global.clear();
        stacktrace.clear();
    }
}

#[test]
fn the_final_entry_is_a_size_that_a_thread_settled() {
    let cache = GlobalCache::new();
    let seen = hammer(&cache, 1, &|| ());
    let settled_last = settled(&cache.entries());
    let settled_ever = seen[0].lock().unwrap();
    assert!(settled_last.iter().all(|size| settled_ever.contains(size)), "{settled_last:?}");
    assert_eq!(settled_last.len(), 1);
    // Every thread starts at the last settled size now, whatever it had looked up before.
    let (memory, last) = (memory(GIB), settled_last[0]);
    for _ in 0..THREADS {
        thread::scope(|scope| {
            let start = scope.spawn(|| call(&cache, 0, &memory, INITIAL).0);
            assert_eq!(start.join().unwrap(), last);
        });
    }
}

#[test]
fn clearing_and_seeding_meanwhile_does_no_harm() {
    let (global, stacktrace) = (GlobalCache::new(), StacktraceMemoryCache::new());
    hammer(&global, 5, &|| {
        global.clear();
        global.seed("never called", 3);
        assert!(global.entries().len() <= 5);
    });
    hammer(&stacktrace, 5, &|| {
        stacktrace.seed("never called", 3);
        stacktrace.clear();
        assert!(stacktrace.entries().len() <= 5);
    });
}

/// In each round one thread learns a size, then all threads look it up: none uses the size of an earlier look-up.
#[test]
fn a_size_learned_by_one_thread_is_where_all_others_start() {
    let (cache, memory) = (AnyStack::default(), memory(GIB));
    let (fits, turn) = (AtomicUsize::new(INITIAL), Barrier::new(4));
    let rounds = |thread: usize| {
        for round in 0..200 {
            if round % 4 == thread {
                // Sometimes all entries are cleared, so that there is something to learn again.
                let smaller = (fits.load(Relaxed) / 2).max(1);
                if smaller == 1 {
                    cache.0.clear();
                }
                fits.store(if smaller == 1 { INITIAL / 2 } else { smaller }, Relaxed);
                call(&cache, 0, &memory, fits.load(Relaxed));
            }
            turn.wait();
            assert_eq!(call(&cache, 0, &memory, INITIAL).0, fits.load(Relaxed), "round {round}");
            turn.wait();
        }
    };
    thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || rounds(thread)))));
}

#[test]
fn a_cache_that_many_threads_fill_holds_as_many_entries_as_one_holds() {
    let cache = GlobalCache::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || (0..5_000).for_each(|key| shrink_once(cache, thread * 5_000 + key)));
        }
    });
    // A thread that adds the last entries while another one evicts leaves the rest to the next.
    let entries = cache.entries().len();
    assert!((MOST / 2..MOST + THREADS).contains(&entries), "{entries} entries");
}

fn shrink_once(cache: &dyn SizeCache, key: usize) {
    call(cache, key, &memory(GIB), INITIAL / 2);
}
