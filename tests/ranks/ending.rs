//! An end of the call on one rank ends the call on all ranks.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use toma::classify::{Class, OutOfMemory};
use toma::observe::{Answer, Event, EventKind, Reason};
use toma::ranks::{self, Error, Group, Member, MemoryStore, RankState, Store, StoreError, Subject, Vote};
use toma::{NoCache, execute, report};

use crate::common::panic_of;
use crate::kit::{form, on_each, on_each_within};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

#[test]
fn an_error_is_returned_where_it_happened_and_named_elsewhere() {
    let errors = on_each(3, |rank| {
        let mut attempts = 0;
        let done = form("step", &rank).range(0..8, 4, |start, _| {
            attempts += 1;
            if rank.rank() == 2 && start == 4 { Err(Boxed::from("disk is full")) } else { Ok(()) }
        });
        assert_eq!(attempts, 2);
        done.unwrap_err().to_string()
    });
    let elsewhere = "rank 2 of 3 ended pieces `step` after 2 attempts: disk is full";
    assert_eq!(errors, [elsewhere, elsewhere, "disk is full"]);
}

#[test]
fn a_failure_whose_call_another_rank_ends_has_one_answer_at_its_size() {
    let answers = on_each(2, |rank| {
        let seen = Mutex::new(Vec::new());
        let observer = |event: &Event<'_>| {
            if let EventKind::Answered { size, answer } = event.kind {
                seen.lock().unwrap().push((size, answer));
            }
        };
        let form = execute::with::<NoCache>().name("step").observer(&observer).ranks(&rank);
        let done = form.batch(8, |_| -> Result<(), Boxed> {
            Err(if rank.rank() == 0 { Boxed::from(OutOfMemory::new(None)) } else { "disk is full".into() })
        });
        assert!(done.is_err());
        seen.into_inner().unwrap()
    });
    let given_up = |reason| vec![(8, Answer::GiveUp(reason))];
    assert_eq!(answers, [given_up(Reason::EndedElsewhere), given_up(Reason::NotOutOfMemory)]);
}

#[test]
fn the_next_call_runs_as_if_nothing_had_happened() {
    let done = on_each(2, |rank| {
        let once = form("one", &rank)
            .batch(4, |size| if rank.rank() == 0 { Err(io::Error::other("no")) } else { Ok(size) });
        let again = form("other", &rank).batch(4, |size| size);
        (once.is_err(), again)
    });
    assert_eq!(done, [(true, 4), (true, 4)]);
}

#[test]
fn a_panic_goes_on_where_it_happened() {
    let results = on_each(2, |rank| {
        panic_of(|| {
            form("step", &rank).batch(4, |size| {
                assert!(rank.rank() == 1, "rank 0 is tired");
                size
            })
        })
    });
    assert_eq!(
        results,
        ["rank 0 is tired", "rank 0 of 2 ended batch `step` after 1 attempts: rank 0 is tired"]
    );
}

#[test]
fn out_of_memory_at_the_smallest_size_ends_the_call() {
    let results = on_each(2, |rank| {
        let done = form("step", &rank).batch(4, |size| {
            if rank.rank() == 0 { Err(Boxed::from(OutOfMemory::new(None))) } else { Ok(size) }
        });
        let report = report::last().unwrap();
        (done.unwrap_err().to_string(), report.attempts, report.gave_up.is_some())
    });
    assert_eq!(results[0].1, results[1].1);
    assert!(
        results[1].0.starts_with("rank 0 of 2 ended batch `step` after 3 attempts: "),
        "{}",
        results[1].0
    );
    assert!(results[0].2 && results[1].2);
}

#[derive(Debug, PartialEq)]
struct Own(String);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Own {}

#[test]
fn errors_of_ones_own_are_made_by_what_was_added() {
    ranks::add_error(|error| Own(format!("converted: {error}")));
    let results = on_each(2, |rank| {
        form("step", &rank)
            .batch(4, |size| if rank.rank() == 0 { Err(Own("mine".to_owned())) } else { Ok(size) })
    });
    assert_eq!(results[0], Err(Own("mine".to_owned())));
    let converted = "converted: rank 0 of 2 ended batch `step` after 1 attempts: mine";
    assert_eq!(results[1], Err(Own(converted.to_owned())));
}

/// Classifies every error as `Class::Other`.
fn other<E>(_: &E) -> Class {
    Class::Other
}

#[test]
fn an_error_that_cannot_be_made_is_a_panic() {
    let results = on_each(2, |rank| {
        let with = form("step", &rank).classify(other);
        catch_unwind(AssertUnwindSafe(|| {
            with.batch(4, |size| if rank.rank() == 0 { Err(()) } else { Ok(size) })
        }))
        .map_err(|payload| *payload.downcast::<String>().expect("it has words"))
    });
    assert_eq!(results[0], Ok(Err(())));
    assert!(
        results[1].as_ref().is_err_and(|results| results.starts_with("rank 0 of 2 ended batch `step`")),
        "{results:?}"
    );
}

#[test]
fn a_rank_that_does_not_come_is_named_in_time() {
    let begun = Instant::now();
    let results = on_each_within(3, Duration::from_millis(200), |rank| {
        let results = (rank.rank() != 1)
            .then(|| form("step", &rank).batch(4, Ok::<_, io::Error>).unwrap_err().to_string());
        (results, rank)
    });
    let missing = Some("batch `step`: no vote of rank 1 of 3 within 200ms".to_owned());
    assert_eq!(
        results.into_iter().map(|(results, _)| results).collect::<Vec<_>>(),
        [missing.clone(), None, missing]
    );
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_rank_that_leaves_is_named_at_once() {
    let results = on_each(3, |rank| {
        (rank.rank() != 1).then(|| form("step", &rank).batch(4, Ok::<_, io::Error>).unwrap_err().to_string())
    });
    let left = Some("rank 1 of 3 ended its work: its ranks were dropped".to_owned());
    assert_eq!(results, [left.clone(), None, left]);
}

#[test]
fn a_rank_that_comes_too_late_receives_the_same() {
    let late = Barrier::new(2);
    let results = on_each_within(2, Duration::from_millis(100), |rank| {
        if rank.rank() == 1 {
            late.wait();
        }
        let done = form("step", &rank).batch(4, Ok::<_, io::Error>);
        if rank.rank() == 0 {
            late.wait();
        }
        done.unwrap_err().to_string()
    });
    assert_eq!(results, ["batch `step`: no vote of rank 1 of 2 within 100ms"; 2]);
}

#[test]
fn different_calls_name_each_other() {
    let results = on_each(3, |rank| {
        let name = if rank.rank() == 2 { "evaluate" } else { "train" };
        form(name, &rank).batch(4, Ok::<_, io::Error>).unwrap_err().to_string()
    });
    assert_eq!(results, ["ranks differ: rank 0 is at batch `train`, rank 2 at batch `evaluate`"; 3]);
}

#[test]
fn a_call_and_a_barrier_differ() {
    let results = on_each(2, |rank| {
        let with = form("train", &rank);
        if rank.rank() == 0 {
            with.range(0..4, 4, |_, _| Ok::<_, Error>(())).unwrap_err()
        } else {
            rank.barrier().unwrap_err()
        }
    });
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0].to_string(), "ranks differ: rank 0 is at pieces `train`, rank 1 at barrier");
}

#[test]
fn a_call_inside_of_an_attempt_is_refused() {
    let results = on_each(2, |rank| {
        let evaluation = rank.named("evaluation", rank.store().clone());
        let inner = |over: &Member| {
            form("inner", over).batch(4, |size| size);
        };
        [&rank, &evaluation].map(|over| panic_of(|| form("outer", &rank).batch(4, |_| inner(over))))
    });
    let refused =
        "inner: ranks inside of an attempt on which ranks agree: must be on the outermost call alone";
    assert_eq!(results, [[refused; 2], [refused; 2]]);
}

#[test]
fn a_second_thread_of_a_rank_needs_a_name_of_its_own() {
    let results = on_each(2, |rank| {
        let evaluation = rank.named("evaluation", rank.store().clone());
        let other = |over: &Member| {
            std::thread::scope(|scope| {
                let run = || form("evaluate", over).batch(4, |size| size);
                scope.spawn(move || catch_unwind(AssertUnwindSafe(run)).ok()).join().unwrap()
            })
        };
        let mut pieces = form("train", &rank).iter(0..4, 2, |_, _| ());
        pieces.next().unwrap();
        let beside = (other(&rank), other(&evaluation));
        (pieces.count(), beside)
    });
    assert_eq!(results, [(1, (None, Some(4))); 2]);
}

#[test]
fn an_iterator_that_is_dropped_ends_the_call_elsewhere() {
    let results = on_each(2, |rank| {
        let mut rows = form("rows", &rank).iter(0..8, 2, |start, _| Ok::<_, io::Error>(start));
        let first = rows.next().unwrap().unwrap();
        if rank.rank() == 0 {
            drop(rows);
            return (first, None);
        }
        let error = rows.find_map(Result::err).map(|error| error.to_string());
        (first, error)
    });
    let dropped = "rank 0 of 2 ended pieces `rows` after 2 attempts: was dropped before its end";
    assert_eq!(results, [(0, None), (0, Some(dropped.to_owned()))]);
}

#[test]
fn the_size_hint_includes_an_error_from_elsewhere() {
    let hints = on_each(2, |rank| {
        let with = form("rows", &rank);
        let items = 2 + 2 * rank.rank();
        let mut rows =
            with.iter(0..items, 2, |start, _| if start == 2 { Err(io::Error::other("no")) } else { Ok(()) });
        let mut hints = vec![rows.size_hint()];
        while rows.next().is_some() {
            hints.push(rows.size_hint());
        }
        hints
    });
    for hints in hints {
        assert_eq!(hints.len(), 3, "a value, and the error");
        for (left, (least, most)) in (0..hints.len()).rev().zip(hints) {
            assert!(least <= left && left <= most.unwrap(), "{left} not in {least}..={most:?}");
        }
    }
}

#[test]
fn an_action_that_panics_ends_the_call_elsewhere() {
    let results = on_each(2, |rank| {
        let done = catch_unwind(AssertUnwindSafe(|| {
            form("step", &rank).range(0..4, 2, |start, _| {
                let fails = rank.rank() == 0 && start == 0;
                ranks::when_agreed(move || assert!(!fails, "no"));
                Ok::<_, io::Error>(())
            })
        }));
        done.map_err(drop).map(|done| done.map_err(|error| error.to_string()))
    });
    let elsewhere = "rank 0 of 2 ended pieces `step` after 2 attempts: panicked";
    assert_eq!(results, [Err(()), Ok(Err(elsewhere.to_owned()))]);
}

#[test]
fn ranks_are_checked() {
    let member = |rank, size| ranks::Member::new(ranks::MemoryStore::default(), rank, size).unwrap_err();
    assert_eq!(member(3, 3).to_string(), "rank 3: must be below size 3");
    assert_eq!(member(0, 0).to_string(), "size 0: must be at least 1");
}

/// A store that records the timeout of each wait of its rank, and ends each wait at once. Without `counts`, its rank
/// dies before it counts.
#[derive(Clone, Debug)]
struct Watched {
    store: MemoryStore,
    counts: bool,
    waits: Arc<Mutex<Vec<Duration>>>,
}

impl Store for Watched {
    fn set(&self, key: &str, bytes: Vec<u8>) -> Result<(), StoreError> {
        self.store.set(key, bytes)
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64, StoreError> {
        self.store.add(key, amount)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn wait(&self, key: &str, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        self.waits.lock().unwrap().push(timeout);
        self.store.get(key)
    }

    fn set_first(&self, key: &str, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
        if self.counts { self.store.set_first(key, bytes) } else { Err(StoreError("killed".to_owned())) }
    }

    fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.store.delete(key)
    }
}

/// A rank that is killed between its vote and the count is missed one exchange later.
#[test]
fn a_rank_that_dies_before_it_counts_is_not_waited_for_twice() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    let store = MemoryStore::default();
    let member = |rank, counts| {
        let store = Watched { store: store.clone(), counts, waits: Arc::default() };
        Member::new(store, rank, 2).unwrap().timeout(TIMEOUT)
    };
    let vote = |attempt| {
        let subject = Subject { attempt, ..Subject::new("batch", "work".to_owned()) };
        Vote { subject, state: RankState::Ready, next: 4, retry: 4 }
    };
    let (alive, dies) = (member(0, true), member(1, false));
    let waits = || alive.store().waits.lock().unwrap().clone();
    let waiting = alive.cast(vote(0)).unwrap();
    assert!(dies.cast(vote(0)).is_err());
    assert_eq!(waiting().unwrap().next, 4, "all votes are there");
    let missing = alive.cast(vote(1)).unwrap()().unwrap_err();
    assert!(matches!(&missing, Error::Missing { ranks, .. } if *ranks == [1]), "{missing}");
    assert_eq!(waits(), [TIMEOUT, TIMEOUT / 4]);
    // After an exchange that failed, the full timeout holds again.
    drop(alive.cast(vote(2)).unwrap()());
    assert_eq!(waits()[2], TIMEOUT);
    std::mem::forget(dies);
}
