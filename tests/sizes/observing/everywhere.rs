//! Observers of every call of the process.

use std::sync::Arc;
use std::thread;

use expect_test::expect;
use toma::observe::{Event, Observer, everywhere};
use toma::{NoCache, execute};

use crate::child::alone;
use crate::observing::record::Record;

/// Returns a record of the calls of one name, and its observer. Other tests run at the same time.
fn listener(name: &'static str) -> (Arc<Record>, impl Observer + Send + 'static) {
    let record = Arc::new(Record::default());
    let notified = Arc::clone(&record);
    let observer = move |event: &Event<'_>| {
        if event.name == name {
            notified.observe(event);
        }
    };
    (record, observer)
}

fn work(name: &'static str) {
    execute::with::<NoCache>().name(name).range(0..2, 2, |_, _| ());
}

#[test]
fn calls_are_seen_until_the_guard_is_dropped() {
    alone("observing::everywhere::calls_are_seen_until_the_guard_is_dropped", || {
        let (record, observer) = listener("seen");
        work("seen");
        let guard = everywhere(observer);
        work("seen");
        drop(guard);
        work("seen");
        expect![[r#"
        started: initial 2, start 2, length Some(2), remembered None
        attempt 0..2: succeeded 0..2
        finished: 1 attempts, 0 out of memory
    "#]]
        .assert_eq(&record.take());
    });
}

#[test]
fn calls_of_all_threads_are_seen() {
    alone("observing::everywhere::calls_of_all_threads_are_seen", || {
        let (record, observer) = listener("threads");
        let _guard = everywhere(observer);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| work("threads"));
            }
        });
        let mut calls: Vec<u64> = record.received().iter().map(|received| received.call).collect();
        calls.sort_unstable();
        assert_eq!(calls.len(), 12);
        for call in calls.chunks(4) {
            assert!(call.iter().all(|&number| number == call[0]), "{calls:?}");
        }
        calls.dedup();
        assert_eq!(calls.len(), 3);
    });
}

#[test]
fn two_observers_receive_the_same_and_end_on_their_own() {
    alone("observing::everywhere::two_observers_receive_the_same_and_end_on_their_own", || {
        let ((one, first), (other, second)) = (listener("two"), listener("two"));
        let first = everywhere(first);
        let second = everywhere(second);
        work("two");
        let received = one.take();
        assert_eq!(received.lines().count(), 3);
        assert_eq!(other.take(), received);

        drop(first);
        work("two");
        assert_eq!((one.take(), other.take()), (String::new(), received));

        drop(second);
        work("two");
        assert_eq!((one.take(), other.take()), (String::new(), String::new()));
    });
}

#[test]
fn the_call_keeps_its_own_observer() {
    alone("observing::everywhere::the_call_keeps_its_own_observer", || {
        let (record, observer) = listener("own");
        let _guard = everywhere(observer);
        let own = Record::default();
        execute::with::<NoCache>().name("own").observer(&own).range(0..2, 2, |_, _| ());
        let received = own.take();
        assert_eq!(received.lines().count(), 3);
        assert_eq!(record.take(), received);
    });
}

#[test]
fn a_call_that_runs_already_is_not_seen() {
    alone("observing::everywhere::a_call_that_runs_already_is_not_seen", || {
        let (record, observer) = listener("running");
        let (mut observer, mut guard) = (Some(observer), None);
        execute::with::<NoCache>().name("running").range(0..4, 2, |_, _| {
            guard = guard.take().or_else(|| observer.take().map(everywhere));
        });
        assert!(guard.is_some());
        assert_eq!(record.take(), "");
    });
}
