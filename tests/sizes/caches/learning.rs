//! Tests that a call leaves in the cache the current step after its last shrink, once that step has succeeded, and
//! nothing else. [`crate::caches::model`] and `tests/loops/rules` test this for calls that succeed, give up or end
//! otherwise, `tests/macros/asynchronous` for dropped futures.

use toma::{GlobalCache, StacktraceMemoryCache, execute, report};

use crate::caches::kit::{AnyStack, GIB, batch, memory};
use crate::kit::fits;

#[cfg(feature = "testing")]
#[test]
fn a_size_that_fails_too_late_is_not_remembered() {
    use std::time::Duration;

    use toma::NoCache;

    let (clock, sizes, memory) =
        (toma::testing::StoppedClock::new(), StacktraceMemoryCache::new(), memory(GIB));
    let with = execute::with::<NoCache>().cache(&sizes).device(&memory).ladder(crate::caches::kit::apart());
    let ended = with.deadline(Duration::from_secs(10)).range(0..64, 64, |start, end| {
        if start >= 16 {
            clock.advance(Duration::from_secs(10));
        }
        fits(end - start, if start < 16 { 16 } else { 0 })
    });
    assert!(ended.is_err());
    assert_eq!(toma::report::last().unwrap().gave_up, Some(toma::observe::Reason::Deadline));
    assert!(sizes.entries().is_empty());
}

#[test]
fn evidence_is_kept_with_the_size() {
    let (sizes, memory) = (StacktraceMemoryCache::new(), memory(3 * GIB));
    let before = std::time::SystemTime::now();
    batch(&sizes, &memory, 100, 30);
    let [entry] = &sizes.entries()[..] else { panic!("one entry") };
    let remembered = entry.remembered.clone();
    assert_eq!((remembered.settled, remembered.free_bytes), (25, Some(3 * GIB)));
    assert_eq!(remembered.bounds.largest_success, Some(25));
    assert_eq!(remembered.bounds.smallest_failure, Some(50));
    assert!(before <= remembered.learned && remembered.learned <= std::time::SystemTime::now());
}

#[test]
fn a_call_that_learns_nothing_new_changes_nothing() {
    let (sizes, memory) = (StacktraceMemoryCache::new(), memory(3 * GIB));
    batch(&sizes, &memory, 100, 30);
    let before = sizes.entries()[0].remembered.clone();
    for _ in 0..10 {
        batch(&sizes, &memory, 100, 30);
        batch(&sizes, &memory, 3, 30);
    }
    assert_eq!(sizes.entries()[0].remembered, before);
}

#[test]
fn one_entry_is_used_without_reading_memory() {
    let (cache, memory) = (AnyStack::default(), memory(10 * GIB));
    batch(&cache, &memory, 100, 30);
    let before = memory.readings();
    memory.has_free(GIB);
    assert_eq!((batch(&cache, &memory, 100, 30), memory.readings()), (vec![25], before));
}

/// Even pieces may be smaller than the step.
#[test]
fn even_pieces_settle_at_the_largest_that_ran() {
    let cache = GlobalCache::new();
    let run = || {
        let mut largest = 0;
        let with = execute::with::<GlobalCache>().cache(&cache).name("even").evenly();
        with.range(0..225, 225, |start, end| {
            fits(end - start, 100).map(|()| largest = largest.max(end - start))
        })
        .unwrap();
        let report = report::last().unwrap();
        (report.start, report.out_of_memory, largest)
    };
    // Half of 225 is 112, which takes three pieces.
    assert_eq!([run(), run()], [(225, 1, 75), (75, 0, 75)]);
}
