//! First visits of short threads: each one looks into the shared table of the size cache once, and never again.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use toma::classify::OutOfMemory;
use toma::{GlobalCache, execute};

use super::measure::median;

const THREADS: usize = 8;
const PLACES: usize = 256;
const ROUNDS: usize = 201;

pub(crate) fn report() {
    println!("first visits by {THREADS} threads at once, each to {PLACES} places that have learned");
    let visits = u32::try_from(THREADS * PLACES).unwrap_or(u32::MAX);
    println!("  global-cache   {:>7} ns per visit", (rounds(ROUNDS) / visits).as_nanos());
}

/// The median time in which all threads are done.
pub(crate) fn rounds(rounds: usize) -> Duration {
    let cache = GlobalCache::new();
    visit(&cache);
    median((0..rounds).map(|_| round(&cache)).collect(), Ord::cmp)
}

fn round(cache: &GlobalCache) -> Duration {
    let start = Barrier::new(THREADS);
    let visitor = || {
        start.wait();
        let begun = Instant::now();
        visit(cache);
        (begun, Instant::now())
    };
    thread::scope(|scope| {
        let visitors = [(); THREADS].map(|()| scope.spawn(visitor));
        let times = visitors.map(|visitor| visitor.join().unwrap());
        let begun = times.iter().map(|time| time.0).min().unwrap();
        times.iter().map(|time| time.1).max().unwrap() - begun
    })
}

/// Calls each call site once; the first thread that arrives learns half of the size.
fn visit(cache: &GlobalCache) {
    for place in 0..PLACES {
        let with = execute::with::<GlobalCache>().cache(cache).key(place);
        let done = with.batch(8, |size| if size > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) });
        assert!(done.is_ok(), "half of the size succeeds");
    }
}
