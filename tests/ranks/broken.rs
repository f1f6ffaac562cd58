//! Regressions: cases that once made ranks disagree.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use toma::GlobalCache;
use toma::classify::OutOfMemory;
use toma::device::Ladder;
use toma::memory::Host;
use toma::predict::{DryCall, Predict, PredictedSize, run_dry};
use toma::ranks::{self, Group, Member, MemoryStore, Store, StoreError};
use toma::testing::{FakeDevice, StoppedClock, inject};
use toma::{NoCache, execute, report};

use crate::kit::{form, on_each, on_each_within};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

#[test]
fn a_name_may_be_used_again() {
    let results = on_each(2, |rank| {
        [5, 3].map(|value| {
            let evaluation = rank.named("evaluation", rank.store().clone());
            evaluation.smallest(value + rank.rank()).unwrap()
        })
    });
    assert_eq!(results, [[5, 3]; 2]);
}

#[test]
fn a_name_may_be_used_twice_at_a_time() {
    let results = on_each(2, |rank| {
        let [one, other] = [(); 2].map(|()| rank.named("evaluation", rank.store().clone()));
        [one.smallest(5).unwrap(), other.smallest(3).unwrap(), one.smallest(7).unwrap()]
    });
    assert_eq!(results, [[5, 3, 7]; 2]);
}

#[test]
fn keys_do_not_pile_up_where_calls_end_in_errors() {
    on_each(3, |rank| {
        let mut most = 0;
        for _ in 0..100 {
            let with = form("step", &rank);
            let fails = rank.rank() == 0;
            with.batch(4, |size| if fails { Err(io::Error::other("no")) } else { Ok(size) }).unwrap_err();
            most = most.max(rank.store().keys());
        }
        assert!(most <= 24, "{most}");
    });
}

#[test]
fn a_call_that_was_never_begun_is_reported_to_all() {
    let dropped = Barrier::new(2);
    let results = on_each(2, |rank| {
        let rows = || form("rows", &rank).iter(0..4, 2, |_, _| Ok::<_, io::Error>(()));
        if rank.rank() == 0 {
            (0..4).for_each(|_| drop(rows()));
            dropped.wait();
            return (Vec::new(), rank.smallest(3));
        }
        dropped.wait();
        let results = (0..4).map(|_| rows().find_map(Result::err).unwrap().to_string()).collect();
        (results, rank.smallest(3))
    });
    assert_eq!(results[0], (Vec::new(), Ok(3)));
    for results in &results[1].0 {
        assert!(results.starts_with("rank 0 of 2 ended "), "{results}");
    }
    assert_eq!((results[1].0.len(), &results[1].1), (4, &Ok(3)));
}

#[test]
fn bytes_are_shared_in_step_after_a_share_that_was_refused() {
    let shared = on_each(2, |rank| {
        let mine = |byte: u8| vec![byte, u8::try_from(rank.rank()).unwrap()];
        rank.share(mine(1)).unwrap();
        let mut rows = form("rows", &rank).iter(0..4, 2, |_, _| ());
        rows.next().unwrap();
        if rank.rank() == 0 {
            rank.share(mine(2)).unwrap_err();
        }
        assert_eq!(rows.count(), 1);
        [3, 4].map(|byte| rank.share(mine(byte)).unwrap())
    });
    let expected = [3, 4].map(|byte| vec![vec![byte, 0], vec![byte, 1]]);
    assert_eq!(shared, [expected.clone(), expected]);
}

#[test]
fn bytes_of_another_thread_do_not_replace_those_that_are_shared() {
    let ranks = ranks::threads(2);
    thread::scope(|scope| {
        let first = scope.spawn(|| ranks[0].share(b"gradients".to_vec()).unwrap());
        while ranks[0].store().keys() == 0 {
            thread::yield_now();
        }
        let busy = ranks[0].share(b"metrics".to_vec()).unwrap_err();
        assert!(matches!(busy, ranks::Error::Busy { .. }), "{busy}");
        let expected = [b"gradients".to_vec(), b"other".to_vec()];
        assert_eq!(ranks[1].share(b"other".to_vec()).unwrap(), expected);
        assert_eq!(first.join().unwrap(), expected);
    });
}

/// A store that counts the first vote of its rank, and loses the answer.
#[derive(Debug, Default)]
struct LosesFirst {
    store: MemoryStore,
    has_lost: AtomicBool,
}

impl Store for LosesFirst {
    fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.store.set(key, bytes)
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError> {
        let sum = self.store.add(key, amount)?;
        if self.has_lost.swap(true, Relaxed) { Ok(sum) } else { Err(StoreError("lost".to_owned())) }
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn wait(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.wait(key, timeout)
    }

    fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        self.store.set_first(key, bytes)
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.store.delete(key)
    }
}

#[test]
fn bytes_of_an_earlier_share_are_not_taken_for_those_of_this_one() {
    let store = MemoryStore::default();
    let behind = Member::new(LosesFirst { store: store.clone(), ..LosesFirst::default() }, 0, 2).unwrap();
    let ahead = Member::new(store, 1, 2).unwrap();
    behind.share(b"first".to_vec()).unwrap_err();
    // The vote was counted, so only one of the two knows of the failure.
    assert_eq!(ahead.share(b"one".to_vec()).unwrap(), [b"first".to_vec(), b"one".to_vec()]);
    let shared = thread::scope(|scope| {
        let second = scope.spawn(|| behind.share(b"second".to_vec()));
        [ahead.share(b"two".to_vec()), second.join().unwrap()]
    });
    for shared in shared {
        assert_eq!(
            shared.unwrap_err().to_string(),
            "ranks differ: rank 0 is at share `0`, rank 1 at share `1`"
        );
    }
}

#[test]
fn a_rank_that_waits_for_votes_keeps_no_other_from_a_device_that_they_share() {
    let (device, meet) = (FakeDevice::new(100), Barrier::new(2));
    let sizes = on_each_within(2, Duration::from_secs(5), |rank| {
        let per_item = if rank.rank() == 0 { 15 } else { 5 };
        let ladder = Ladder::default().wait(Duration::from_secs(60));
        let mut first = true;
        form("step", &rank).device(&device).ladder(ladder).batch(8, |size| {
            if std::mem::take(&mut first) {
                meet.wait();
            }
            let held = device.alloc(per_item * size as u64).map_err(Boxed::from)?;
            drop(held);
            Ok::<_, Boxed>(size)
        })
    });
    let sizes: Vec<_> = sizes.into_iter().map(|size| size.map_err(|error| error.to_string())).collect();
    assert_eq!(sizes, [Ok(4), Ok(4)]);
}

/// A prediction that runs the body dry once.
#[derive(Debug)]
struct RunsDry;

impl Predict for RunsDry {
    fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
        panic!("the body is lent")
    }

    fn predict_dry(&self, call: &mut DryCall<'_>) -> Option<PredictedSize> {
        assert!(run_dry(|| call.run(2).is_ok()).unwrap());
        Some(PredictedSize { size: 4, needs_bytes: 1 })
    }
}

#[test]
fn actions_of_dry_runs_do_not_run() {
    let counts = on_each(2, |rank| {
        let (bodies, actions) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
        let with = execute::with::<NoCache>().device(Host::shared()).predict(&RunsDry).ranks(&rank);
        with.range(0..4, 4, |_, _| {
            bodies.fetch_add(1, Relaxed);
            let actions = actions.clone();
            ranks::when_agreed(move || {
                actions.fetch_add(1, Relaxed);
            });
        });
        (bodies.into_inner(), actions.load(Relaxed))
    });
    assert_eq!(counts, [(2, 1); 2]);
}

/// A prediction that panics when it is asked.
#[derive(Debug)]
struct Panics;

impl Predict for Panics {
    fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
        panic!("no idea")
    }
}

#[test]
fn a_panic_before_the_first_attempt_ends_the_call_elsewhere() {
    let results = on_each_within(2, Duration::from_secs(5), |rank| {
        let with = execute::with::<NoCache>().name("step").device(Host::shared()).ranks(&rank);
        let with = if rank.rank() == 0 { with.predict(&Panics) } else { with };
        let run = || with.batch(4, Ok::<_, io::Error>);
        let done = catch_unwind(AssertUnwindSafe(run)).map_err(drop);
        // The handle is still there.
        (done.map(|done| done.map_err(|error| error.to_string())), rank)
    });
    let results: Vec<_> = results.into_iter().map(|(results, _)| results).collect();
    assert_eq!(results, [Err(()), Ok(Err("rank 0 of 2 ended batch `step`: panicked".to_owned()))]);
}

#[test]
fn doubts_of_all_ranks_come_together() {
    let largest = on_each(2, |rank| {
        let clock = StoppedClock::new();
        let (mut attempts, mut largest) = (0, 0);
        form("step", &rank)
            .range(0..16 * 400, 64, |start, end| {
                attempts += 1;
                let is_late = start > 16 * 100;
                if attempts == 100 {
                    clock.advance(Duration::from_secs(3600));
                }
                if is_late {
                    largest = largest.max(end - start);
                }
                if rank.rank() == 1 && !is_late && end - start > 16 {
                    return Err(OutOfMemory::new(None));
                }
                Ok(())
            })
            .unwrap();
        largest
    });
    assert_eq!(largest, [32, 32]);
}

#[test]
fn even_pieces_that_are_all_there_is_settle_nothing() {
    let caches = [GlobalCache::new(), GlobalCache::new()];
    let call = |rank: &Member, items, room: usize| {
        let with = execute::with::<NoCache>().cache(&caches[rank.rank()]).name("step").ranks(rank);
        let body = |start: usize, end: usize| {
            if end - start > room { Err(OutOfMemory::new(None)) } else { Ok(()) }
        };
        with.evenly().range(0..items, 64, body).unwrap();
        report::last().unwrap().start
    };
    let starts = on_each(2, |rank| {
        // Rank 1 learns the size. Rank 0 has too few items to learn anything about it.
        call(&rank, [4, 128][rank.rank()], [64, 16][rank.rank()]);
        call(&rank, 128, 64)
    });
    assert_eq!(starts, [16, 16]);
}

#[test]
fn an_injected_failure_is_remembered_on_no_rank() {
    let caches = [GlobalCache::new(), GlobalCache::new()];
    let sizes = on_each(2, |rank| {
        let _injection = (rank.rank() == 0).then(|| inject::script([inject::Verdict::OUT_OF_MEMORY]));
        let with = execute::with::<NoCache>().cache(&caches[rank.rank()]).name("step").ranks(&rank);
        with.batch(64, |size| size)
    });
    assert_eq!(sizes, [32, 32]);
    assert!(caches.iter().all(|cache| cache.entries().is_empty()), "{caches:?}");
}

#[test]
fn a_body_that_would_wait_for_other_ranks_is_refused() {
    let results = on_each_within(2, Duration::from_secs(5), |rank| {
        let other = rank.named("other", rank.store().clone());
        let done = form("step", &rank).batch(4, |size| {
            if rank.rank() == 1 && size > 2 {
                return Err(Boxed::from(OutOfMemory::new(None)));
            }
            Ok(other.barrier().map(|()| size)?)
        });
        done.unwrap_err().to_string()
    });
    let refused = "barrier in an attempt on which ranks agree: must be outside of it";
    assert!(results[0] == refused && results[1].contains(refused), "{results:?}");
}

#[test]
fn an_item_that_ends_the_call_elsewhere_ends_it_here() {
    let seen = on_each(2, |rank| {
        let seen = Mutex::new(Vec::new());
        let done = form("step", &rank).by_cost(|item| [1, 9, 1, 1][item]).range(0..4, 2, |start, end| {
            seen.lock().unwrap().extend(start..end);
            let fails = rank.rank() == 1 && start == 1;
            if fails { Err(Boxed::from(OutOfMemory::new(None))) } else { Ok(()) }
        });
        (done.is_err(), seen.into_inner().unwrap())
    });
    assert_eq!(seen[1], (true, vec![0, 1]));
    assert!(seen[0].0);
}
