//! A burst of failures pins no size: a size that has succeeded for long enough is doubted, and sometimes a call probes
//! at twice the size.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::observe::{Event, EventKind};
use toma::policy::{Evidence, Needs, Policy};
use toma::testing::StoppedClock;
use toma::{Bisect, Decay, Halve};
use toma::{GlobalCache, NoCache, execute};

use crate::caches::kit::{AnyStack, GIB, apart, batch, memory};
use crate::kit::fits;

const SUCCESSES: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);
const UNLIMITED: usize = usize::MAX;

fn with_each(test: impl Fn(&dyn SizeCache)) {
    test(&GlobalCache::new());
    test(&AnyStack::default());
}

/// Makes `calls` calls with up to 8 items, all of which must make the same attempts, and returns the sizes of one call.
fn each_of(calls: usize, mut call: impl FnMut() -> Vec<usize>) -> Vec<usize> {
    let first = call();
    (1..calls).for_each(|i| assert_eq!(call(), first, "call {i}"));
    first
}

/// Returns the sizes of the attempts of a range of `length` items at one call site, with the key `key`.
fn range(
    cache: &dyn SizeCache,
    key: u64,
    (length, initial): (usize, usize),
    fails: &mut dyn FnMut(usize, usize) -> bool,
) -> Vec<usize> {
    let memory = memory(GIB);
    let mut tried = Vec::new();
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart()).key(key).name("range");
    let _ = with.range(0..length, initial, |start, end| {
        tried.push(end - start);
        if fails(start, end) { Err(OutOfMemory::new(None)) } else { Ok(()) }
    });
    tried
}

#[test]
fn a_burst_that_ends_well_at_1_pins_no_call_to_1() {
    let policies: [&dyn Policy; 3] = [&Halve, &Bisect::default(), &Decay::new(0.5)];
    for policy in policies {
        with_each(|cache| {
            let clock = StoppedClock::new();
            let call = |limit| with_policy(cache, policy, limit);
            assert_eq!(call(1), [8, 4, 2, 1], "{policy:?}");
            for settled in [1, 2, 4] {
                clock.advance(MINUTE);
                assert_eq!(each_of(SUCCESSES, || call(UNLIMITED)), [settled], "{policy:?}");
                assert_eq!(call(UNLIMITED), [settled * 2], "{policy:?}");
            }
            clock.advance(MINUTE);
            assert_eq!(each_of(SUCCESSES * 4, || call(UNLIMITED)), [8], "initial is never exceeded");
        });
    }
}

#[test]
fn both_numbers_double_with_each_probe_that_fails_and_one_that_succeeds_resets_them() {
    with_each(|cache| {
        let (memory, clock) = (memory(GIB), StoppedClock::new());
        let call = |limit| batch(cache, &memory, 8, limit);
        call(1);
        for failed in 0..4 {
            clock.advance((MINUTE * (1 << failed)).saturating_sub(Duration::from_nanos(1)));
            assert_eq!(each_of(SUCCESSES << failed, || call(1)), [1], "{failed} probes have failed");
            assert_eq!(call(1), [1], "a nanosecond is missing");
            clock.advance(Duration::from_nanos(1));
            assert_eq!(each_of((SUCCESSES << failed) - 1, || call(1)), [1]);
            assert_eq!(call(1), [2, 1]);
        }
        clock.advance(MINUTE * 16);
        assert_eq!(each_of(SUCCESSES * 16, || call(UNLIMITED)), [1]);
        assert_eq!(call(UNLIMITED), [2]);
        clock.advance(MINUTE);
        assert_eq!(each_of(SUCCESSES, || call(UNLIMITED)), [2]);
        assert_eq!(call(UNLIMITED), [4]);
    });
}

/// A burst of failures that lowers the size restarts the doubts, although it comes while larger sizes are probed.
#[test]
fn a_failure_at_the_settled_size_is_no_failed_probe() {
    with_each(|cache| {
        let (memory, clock) = (memory(GIB), StoppedClock::new());
        let call = |limit| batch(cache, &memory, 8, limit);
        call(4);
        clock.advance(MINUTE);
        each_of(SUCCESSES, || call(4));
        assert_eq!(call(4), [8, 4]);
        assert_eq!(call(1), [4, 2, 1]);
        clock.advance(MINUTE);
        assert_eq!(each_of(SUCCESSES, || call(4)), [1]);
        assert_eq!(call(4), [2]);
    });
}

/// Returns the sizes of a batch with the policy.
fn with_policy(cache: &dyn SizeCache, policy: &dyn Policy, limit: usize) -> Vec<usize> {
    let (memory, mut tried) = (memory(GIB), Vec::new());
    let with = execute::with::<NoCache>().cache(cache).device(&memory).ladder(apart()).policy(policy);
    let done = with.batch(8, |size| {
        tried.push(size);
        fits(size, limit)
    });
    assert!(done.is_ok());
    tried
}

/// A doubt costs one attempt: `Decay` would try many failing sizes on its way back.
#[test]
fn a_probe_that_fails_goes_back_at_once() {
    let (cache, clock, policy) = (GlobalCache::new(), StoppedClock::new(), Decay::new(0.9));
    assert_eq!(with_policy(&cache, &Halve, 4).last(), Some(&4));
    clock.advance(MINUTE);
    each_of(SUCCESSES, || with_policy(&cache, &policy, 4));
    assert_eq!(with_policy(&cache, &policy, 4), [8, 4]);
}

/// Returns the sizes of the attempts in one range of 2,000 items, up to 8 at once, each of which takes a second.
fn long_range(fits: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let (clock, mut sizes) = (StoppedClock::new(), Vec::new());
    let body = |start, end| {
        clock.advance(Duration::from_secs(1));
        sizes.push(end - start);
        if fits(start, end - start) { Ok(()) } else { Err(OutOfMemory::new(None)) }
    };
    execute::with::<NoCache>().range(0..2000, 8, body).unwrap();
    sizes
}

#[test]
fn a_burst_in_a_long_range_pins_it_for_a_while_only() {
    let mut sizes = long_range(|start, size| start > 0 || size == 1);
    assert_eq!(
        sizes.iter().filter(|&&size| size == 2).count(),
        1 + 2 * SUCCESSES,
        "one failure, then a doubt"
    );
    sizes.dedup();
    assert_eq!(sizes, [8, 4, 2, 1, 2, 4, 8]);
}

#[test]
fn a_size_that_does_not_fit_is_doubted_ever_less_often_in_a_long_range() {
    let sizes = long_range(|_, size| size == 1);
    let doubts: Vec<_> = (4..sizes.len()).filter(|&at| sizes[at] == 2).collect();
    assert_eq!(doubts.len(), 4, "{doubts:?}");
    assert!(doubts.windows(3).all(|three| three[2] - three[1] > three[1] - three[0]), "{doubts:?}");
}

/// A policy that halves and needs time, as policies do that raise the size themselves.
#[derive(Debug)]
struct Measuring;

impl Policy for Measuring {
    fn shrink(&self, evidence: &Evidence) -> usize {
        evidence.size / 2
    }

    fn needs(&self) -> Needs {
        Needs::TIME
    }
}

#[test]
fn policies_that_measure_decide_by_themselves() {
    let (cache, clock) = (GlobalCache::new(), StoppedClock::new());
    assert_eq!(with_policy(&cache, &Measuring, 1), [8, 4, 2, 1]);
    clock.advance(MINUTE * 60);
    assert_eq!(each_of(SUCCESSES * 4, || with_policy(&cache, &Measuring, UNLIMITED)), [1]);
}

#[test]
fn a_range_probes_with_its_first_piece() {
    with_each(|cache| {
        let clock = StoppedClock::new();
        let call = |limit| range(cache, 0, (4, 4), &mut |start, end| end - start > limit);
        assert_eq!(call(1), [4, 2, 1, 1, 1, 1]);
        clock.advance(MINUTE);
        assert_eq!(each_of(SUCCESSES, || call(UNLIMITED)), [1; 4]);
        assert_eq!(call(1), [2, 1, 1, 1, 1]);
        clock.advance(MINUTE * 2);
        assert_eq!(each_of(SUCCESSES * 2, || call(UNLIMITED)), [1; 4]);
        assert_eq!(call(UNLIMITED), [2, 2]);
        assert_eq!(call(UNLIMITED), [2, 2]);
    });
}

/// Calls that have no use for a larger size are no evidence for the settled size, and would not notice a probe.
#[test]
fn calls_that_need_no_more_do_not_count() {
    with_each(|cache| {
        let clock = StoppedClock::new();
        let call = |length| range(cache, 0, (length, 8), &mut |start, end| end - start > 4);
        assert_eq!(call(8), [8, 4, 4]);
        clock.advance(MINUTE);
        assert_eq!(each_of(SUCCESSES * 4, || call(4)), [4]);
        assert_eq!(each_of(SUCCESSES - 1, || call(8)), [4, 4], "the call that has learned was the first");
        assert_eq!(each_of(SUCCESSES, || call(3)), [3], "a probe is not spent on a short range");
        assert_eq!(call(8), [8, 4, 4]);
    });
}

/// A size learned at another call site of the cache makes threads look it up anew, and counting continues.
#[test]
fn counting_goes_on_when_another_place_learns() {
    with_each(|cache| {
        let (memory, clock) = (memory(GIB), StoppedClock::new());
        let call = |limit| batch(cache, &memory, 8, limit);
        call(1);
        clock.advance(MINUTE);
        let mut other = 0;
        let calls = (0..SUCCESSES * 2).find(|_| {
            other += 1;
            range(cache, other, (8, 8), &mut |start, end| end - start > 4);
            call(UNLIMITED) != [1]
        });
        assert_eq!(
            calls,
            Some(SUCCESSES - 1),
            "each call looks into the table, which counts for all threads"
        );
    });
}

#[test]
fn threads_too_short_to_count_count_together() {
    with_each(|cache| {
        let memory = memory(GIB);
        let call = |limit| {
            let call = || {
                let clock = StoppedClock::new();
                clock.advance(if limit == 1 { Duration::ZERO } else { MINUTE });
                batch(cache, &memory, 8, limit)
            };
            thread::scope(|scope| scope.spawn(call).join().unwrap())
        };
        assert_eq!(call(1), [8, 4, 2, 1]);
        assert_eq!(each_of(SUCCESSES - 1, || call(UNLIMITED)), [1]);
        assert_eq!(call(UNLIMITED), [2]);
    });
}

#[test]
fn events_and_the_report_distinguish_a_probe_from_a_start_at_the_settled_size() {
    let (cache, clock, seen) = (GlobalCache::new(), StoppedClock::new(), Mutex::new(Vec::new()));
    let observer = |event: &Event<'_>| match event.kind {
        EventKind::Started { start, remembered, .. } => {
            seen.lock().unwrap().push(format!("starts at {start}, {remembered:?} is remembered"));
        }
        EventKind::Probe { from, to } => seen.lock().unwrap().push(format!("probes {to} after {from}")),
        _ => {}
    };
    let call = |limit| {
        seen.lock().unwrap().clear();
        let with = execute::with::<NoCache>().cache(&cache).observer(&observer).ladder(apart());
        with.batch(8, |size| fits(size, limit)).unwrap();
    };
    call(2);
    clock.advance(MINUTE);
    (0..SUCCESSES).for_each(|_| call(UNLIMITED));
    assert_eq!(*seen.lock().unwrap(), ["starts at 2, Some(2) is remembered"]);
    call(UNLIMITED);
    assert_eq!(*seen.lock().unwrap(), ["starts at 4, Some(2) is remembered", "probes 4 after 2"]);
    let report = toma::report::last().unwrap();
    assert_eq!((report.start, report.remembered, report.settled), (4, Some(2), Some(4)));
}

#[test]
fn each_level_of_free_memory_is_doubted_for_itself() {
    let (cache, memory, clock) = (AnyStack::default(), memory(10 * GIB), StoppedClock::new());
    let call = |gib: u64, limit| {
        memory.has_free(gib * GIB);
        batch(&cache, &memory, 8, limit)
    };
    assert_eq!(call(10, 4), [8, 4]);
    assert_eq!(call(2, 1), [4, 2, 1]);
    clock.advance(MINUTE);
    assert_eq!(each_of(SUCCESSES, || call(10, UNLIMITED)), [4]);
    assert_eq!(call(10, UNLIMITED), [8]);
    assert_eq!(each_of(SUCCESSES, || call(2, UNLIMITED)), [1]);
    assert_eq!(call(2, UNLIMITED), [2]);
    assert_eq!(call(10, UNLIMITED), [8]);
}

/// A probe whose body ends for another reason is no evidence: the next probe comes as if this one had not run.
#[test]
fn a_probe_that_ends_otherwise_is_none() {
    let (cache, clock) = (GlobalCache::new(), StoppedClock::new());
    let call = |is_broken: bool, limit: usize| {
        let mut tried = Vec::new();
        let _ = execute::with::<NoCache>().cache(&cache).batch(8, |size| {
            tried.push(size);
            let out_of_memory = || std::io::Error::other(OutOfMemory::new(None));
            let broken = || std::io::Error::other("broken");
            if size > limit {
                Err(out_of_memory())
            } else if is_broken {
                Err(broken())
            } else {
                Ok(())
            }
        });
        tried
    };
    call(false, 1);
    clock.advance(MINUTE);
    assert_eq!(each_of(SUCCESSES, || call(false, UNLIMITED)), [1]);
    assert_eq!(call(true, UNLIMITED), [2]);
    assert_eq!(each_of(SUCCESSES - 1, || call(false, UNLIMITED)), [1]);
    assert_eq!(call(false, UNLIMITED), [2]);
}
