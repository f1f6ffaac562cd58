//! Compares sequences of calls at one call site with an obvious model of the remembered sizes.

use proptest::prelude::*;
use proptest::sample::select;
use toma::cache::{Entry, SizeCache};
use toma::classify::OutOfMemory;
use toma::{GlobalCache, NoCache, StacktraceMemoryCache, execute};

use crate::caches::kit::{GIB, MIB, apart, memory, settled};

/// One call. With a `limit` of 0 every size fails.
#[derive(Clone, Copy, Debug)]
struct Call {
    free_bytes: Option<u64>,
    initial: usize,
    max: usize,
    length: usize,
    limit: usize,
}

/// Figures at the edges where free memory counts as less, and a level as another one: half a GiB, or 5 %, apart.
const EDGES: [u64; 10] = [0, 512, 1024, 9728, 10_239, 10_240, 19 << 10, 20 << 10, 38 << 10, 40 << 10];

prop_compose! {
    fn any_call()(
        free_mib in proptest::option::weighted(0.9, prop_oneof![0..4096_u64, 0..81_920_u64, select(&EDGES[..])]),
        initial in 1..100_usize,
        max in prop_oneof![Just(usize::MAX), 1..100_usize],
        length in 0..100_usize,
        limit in prop_oneof![8 => 1..100_usize, 1 => Just(0_usize)],
    ) -> Call {
        Call { free_bytes: free_mib.map(|mib| mib * MIB), initial, max, length, limit }
    }
}

#[derive(Default)]
struct Model {
    /// Level and size, the latest last.
    entries: Vec<(Option<u64>, usize)>,
    has_levels: bool,
}

impl Model {
    fn recall(&self, free_bytes: Option<u64>) -> Option<usize> {
        let mut by_level = self.entries.clone();
        by_level.sort_by_key(|entry| entry.0);
        let below = |&&(level, _): &&(Option<u64>, usize)| match (level, free_bytes) {
            (None, _) => true,
            (Some(level), Some(free)) => level <= free + tolerance(level),
            (Some(_), None) => false,
        };
        let chosen = by_level.iter().rfind(below).or(by_level.first());
        chosen.map(|entry| entry.1)
    }

    fn remember(&mut self, free_bytes: Option<u64>, size: usize) {
        let level = free_bytes.filter(|_| self.has_levels);
        self.entries.retain(|&(known, _)| match (known, level) {
            (Some(known), Some(level)) => known.abs_diff(level) > tolerance(known.max(level)),
            (None, _) => false,
            (Some(_), None) => true,
        });
        self.entries.push((level, size));
        if self.entries.len() > 4 {
            self.entries.remove(0);
        }
    }

    /// Returns the sizes that the call tries, in order.
    fn run(&mut self, call: &Call) -> Vec<usize> {
        let Call { free_bytes, initial, max, length, limit } = *call;
        let mut step = initial.min(max).min(self.recall(free_bytes).unwrap_or(usize::MAX));
        let (mut tried, mut position, mut shrunk, mut learned) = (Vec::new(), 0, false, None);
        while position < length {
            let size = step.min(length - position);
            tried.push(size);
            if size <= limit {
                learned = learned.or((shrunk && size == step).then_some(step));
                position += size;
            } else if size == 1 {
                return tried;
            } else {
                (step, shrunk, learned) = (size / 2, true, None);
            }
        }
        if let Some(size) = learned {
            self.remember(free_bytes, size);
        }
        tried
    }

    fn settled(&self) -> Vec<usize> {
        let mut sizes: Vec<_> = self.entries.iter().map(|entry| entry.1).collect();
        sizes.sort_unstable();
        sizes
    }
}

/// Half a GiB, or a twentieth.
fn tolerance(bytes: u64) -> u64 {
    if bytes > 10 * GIB { bytes / 20 } else { GIB / 2 }
}

fn run(cache: &dyn SizeCache, call: &Call) -> Vec<usize> {
    let memory = memory(0);
    match call.free_bytes {
        Some(bytes) => memory.has_free(bytes),
        None => memory.cannot_be_read(),
    }
    let mut tried = Vec::new();
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart()).max(call.max);
    let _ = with.range(0..call.length, call.initial, |start, end| {
        tried.push(end - start);
        if end - start > call.limit { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    tried
}

fn check(cache: &dyn SizeCache, entries: impl Fn() -> Vec<Entry>, mut model: Model, calls: &[Call]) {
    for call in calls {
        assert_eq!(run(cache, call), model.run(call), "{call:?} of {calls:?}");
        assert_eq!(settled(&entries()), model.settled());
    }
}

proptest! {
    #[test]
    fn a_stacktrace_memory_cache_is_as_modeled(calls in prop::collection::vec(any_call(), 1..10)) {
        let cache = StacktraceMemoryCache::new();
        check(&cache, || cache.entries(), Model { has_levels: true, ..Model::default() }, &calls);
    }

    #[test]
    fn a_global_cache_is_as_modeled(calls in prop::collection::vec(any_call(), 1..10)) {
        let cache = GlobalCache::new();
        check(&cache, || cache.entries(), Model::default(), &calls);
    }
}
