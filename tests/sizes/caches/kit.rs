//! A memory shared by tests, and calls that return the sizes they tried.

use toma::cache::{Entry, Place, Remembered, SizeCache};
use toma::device::Ladder;
use toma::{NoCache, StacktraceMemoryCache, execute};

use crate::kit::{Memory, fits};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Tests run side by side on memories of one name, and must not wait for each other.
pub(crate) fn apart() -> Ladder<'static> {
    Ladder::default().without_waiting()
}

/// Returns a memory of 80 GiB.
pub(crate) fn memory(free_bytes: u64) -> Memory {
    Memory::named("test:0", free_bytes, 80 * GIB)
}

/// The default cache, without the stack of callers in its key.
#[derive(Debug, Default)]
pub(crate) struct AnyStack(pub(crate) StacktraceMemoryCache);

impl SizeCache for AnyStack {
    fn shared() -> &'static Self {
        static SHARED: AnyStack = AnyStack(StacktraceMemoryCache::new());
        &SHARED
    }

    fn recall(&self, place: &Place<'_>) -> Option<Remembered> {
        self.0.recall_by(&place.by_function(), place)
    }

    fn remember(&self, place: &Place<'_>, learned: Remembered) {
        self.0.remember_by(&place.by_function(), place, learned);
    }
}

/// Returns the sizes of the attempts of a batch at one call site, the last of which worked unless `limit` is 0.
pub(crate) fn batch(cache: &dyn SizeCache, memory: &Memory, initial: usize, limit: usize) -> Vec<usize> {
    let mut tried = Vec::new();
    let with = execute::with::<NoCache>().cache(cache).device(memory).ladder(apart()).name("batch");
    let ended = with.batch(initial, |size| {
        tried.push(size);
        fits(size, limit)
    });
    assert_eq!(ended.is_ok(), limit > 0, "{ended:?}");
    tried
}

/// Returns the settled sizes of the entries, in order.
pub(crate) fn settled(entries: &[Entry]) -> Vec<usize> {
    let mut settled: Vec<_> = entries.iter().map(|entry| entry.remembered.settled).collect();
    settled.sort_unstable();
    settled
}
