//! Observers that panic, and observers that run loops themselves.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use toma::classify::OutOfMemory;
use toma::observe::{Event, Observer, everywhere};
use toma::{Bisect, GlobalCache, NoCache, execute};

use crate::child;

/// Returns the name of the kind of an event.
fn kind(event: &Event<'_>) -> String {
    let shown = format!("{:?}", event.kind);
    shown.split([' ', '{']).next().unwrap_or_default().to_owned()
}

/// Panics at the first event of a kind, with the panic that `raise` raises.
struct PanicsAt {
    kind: &'static str,
    raise: fn(),
    notified: Mutex<Vec<String>>,
}

impl Observer for PanicsAt {
    fn observe(&self, event: &Event<'_>) {
        let kind = kind(event);
        let is_last = kind == self.kind;
        self.notified.lock().unwrap().push(kind);
        if is_last {
            (self.raise)();
        }
    }
}

/// A panic that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload panics, too");
    }
}

const KINDS: [&str; 8] =
    ["Started", "Attempt", "Succeeded", "Failed", "Answered", "Probe", "Settled", "Finished"];

/// Makes a call that has all kinds of events but giving up, and does every element once.
fn succeeds(observer: &dyn Observer) {
    let (mut done, mut hiccup) = (Vec::new(), true);
    let sizes = GlobalCache::new();
    let with = execute::with::<NoCache>().cache(&sizes).policy(Bisect::default()).observer(observer);
    with.range(0..100, 32, |start, end| {
        if start > 20 && std::mem::take(&mut hiccup) {
            return Err(std::io::Error::other("CUBLAS_STATUS_INTERNAL_ERROR"));
        }
        if end - start > 11 {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        done.extend(start..end);
        Ok(())
    })
    .unwrap();
    assert_eq!(done, (0..100).collect::<Vec<_>>());
}

/// Makes a call that settles and then gives up, with the error unchanged.
fn gives_up(observer: &dyn Observer) {
    let with = execute::with::<NoCache>().observer(observer);
    let ended = with.range(0..8, 8, |start, end| {
        if start >= 4 || end - start > 4 { Err(OutOfMemory::new(Some(start as u64))) } else { Ok(()) }
    });
    assert_eq!(ended, Err(OutOfMemory::new(Some(4))));
}

/// Runs the other forms, each with a failure.
fn other_forms(observer: &dyn Observer) {
    let with = || execute::with::<NoCache>().observer(observer);
    let fails = |size| if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(size) };
    assert_eq!(with().batch(8, fails), Ok(2));
    assert_eq!(with().map(0..5, 8, |start, end| fails(end - start)).unwrap(), [2, 2, 1]);
    assert_eq!(with().fold(0..5, 8, 0, |sum, start, end| fails(end - start).map(|size| sum + size)), Ok(5));
    let mut data = [0; 5];
    with()
        .chunked(&mut data[..], 8, |chunk, start, end| {
            fails(end - start)?;
            chunk.fill(1);
            Ok::<_, OutOfMemory>(())
        })
        .unwrap();
    assert_eq!(data, [1; 5]);
}

#[test]
fn all_kinds_of_events_are_met() {
    let notified = Mutex::new(Vec::new());
    let observer = |event: &Event<'_>| notified.lock().unwrap().push(kind(event));
    succeeds(&observer);
    gives_up(&observer);
    let mut notified = notified.into_inner().unwrap();
    notified.sort();
    notified.dedup();
    let mut kinds = KINDS.map(str::to_owned);
    kinds.sort();
    assert_eq!(notified, kinds, "a new kind of event needs its test here");
}

fn check_kind(kind: &'static str, raise: fn()) {
    for call in [succeeds, gives_up] {
        let observer = PanicsAt { kind, raise, notified: Mutex::default() };
        let [notified, again] = [(); 2].map(|()| {
            call(&observer);
            std::mem::take(&mut *observer.notified.lock().unwrap())
        });
        assert_eq!(again, notified, "{kind}: the next call notifies it again");
        let received = notified.iter().filter(|notified| *notified == kind).count();
        assert!(
            received == 0 || received == 1 && notified.last().map(String::as_str) == Some(kind),
            "{kind}: {notified:?}"
        );
    }
    other_forms(&PanicsAt { kind, raise, notified: Mutex::default() });
}

/// Runs in a process of its own, because it writes many lines to standard error.
#[test]
fn an_observer_that_panics_is_notified_no_more_and_the_work_goes_on() {
    let test = "adversity::observers::an_observer_that_panics_is_notified_no_more_and_the_work_goes_on";
    let raises: [fn(); 3] =
        [|| panic!("an observer's mistake"), || panic_any(OutOfMemory::new(None)), || panic_any(Bomb)];
    let Some(ended) = child::run(test, &[]) else {
        for raise in raises {
            for kind in KINDS {
                check_kind(kind, raise);
            }
        }
        return;
    };
    let message = "an observer panicked and receives no more events of this call";
    let printed = ended.passed().iter().filter(|line| line.ends_with(message)).count();
    assert!(printed >= KINDS.len() * raises.len(), "{printed}");
}

#[test]
fn the_other_observers_are_notified_of_all() {
    let test = "adversity::observers::the_other_observers_are_notified_of_all";
    let Some(ended) = child::run(test, &[]) else {
        let received = std::sync::Arc::new(AtomicUsize::new(0));
        let counter = std::sync::Arc::clone(&received);
        let _panicking = everywhere(|_: &Event<'_>| panic!("first"));
        let _counting = everywhere(move |_: &Event<'_>| {
            counter.fetch_add(1, Relaxed);
        });
        let observer = PanicsAt { kind: "Started", raise: || panic!("second"), notified: Mutex::default() };
        execute::with::<NoCache>().name("work").observer(&observer).range(0..4, 2, |_, _| ());
        assert_eq!(received.load(Relaxed), 6, "started, two attempts, two successes, finished");
        return;
    };
    let stderr = ended.passed();
    let expected = "toma: work: an observer panicked and receives no more events of this call";
    assert_eq!(stderr.iter().filter(|line| *line == expected).count(), 2, "{stderr:?}");
    for message in ["first", "second"] {
        assert_eq!(stderr.iter().filter(|line| *line == message).count(), 1, "{stderr:?}");
    }
}

#[test]
fn an_observer_may_run_loops_itself() {
    let inner = AtomicUsize::new(0);
    let observer = |_: &Event<'_>| {
        execute::range(0..8, 8, |start, end| {
            if end - start > 4 {
                return Err(OutOfMemory::new(None));
            }
            inner.fetch_add(1, Relaxed);
            Ok(())
        })
        .unwrap();
    };
    succeeds(&observer);
    gives_up(&observer);
    assert!(inner.load(Relaxed) > 20);
}

/// An observer of every call of the process that makes calls itself: it receives no events of its own calls.
#[test]
fn an_observer_of_everything_may_run_loops_itself() {
    let test = "adversity::observers::an_observer_of_everything_may_run_loops_itself";
    let settings = [("TOMA_LOG", "1")];
    let Some(ended) = child::run(test, &settings) else {
        let (received, seen) = (std::sync::Arc::new(Mutex::new(Vec::new())), AtomicUsize::new(0));
        let kinds = std::sync::Arc::clone(&received);
        let guard = everywhere(move |event: &Event<'_>| {
            kinds.lock().unwrap().push(format!("{} {}", event.name, kind(event)));
            let own = |_: &Event<'_>| {
                seen.fetch_add(1, Relaxed);
            };
            let with = execute::with::<NoCache>().name("inner").observer(&own);
            let fails = with.batch(2, |size| if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) });
            fails.unwrap();
            assert_eq!(seen.swap(0, Relaxed), 7, "an observer given to the call itself is notified");
        });
        execute::with::<NoCache>().name("outer").range(0..4, 2, |_, _| ());
        assert_eq!(
            *received.lock().unwrap(),
            ["Started", "Attempt", "Succeeded", "Attempt", "Succeeded", "Finished"]
                .map(|kind| format!("outer {kind}"))
        );
        drop(guard);
        return;
    };
    let stderr = ended.passed();
    assert!(stderr.iter().all(|line| !line.contains("panicked")), "{stderr:?}");
}

#[test]
fn an_observer_may_end_its_own_observation() {
    let test = "adversity::observers::an_observer_may_end_its_own_observation";
    let Some(ended) = child::run(test, &[]) else {
        static GUARD: Mutex<Option<toma::observe::Everywhere>> = Mutex::new(None);
        static RECEIVED: AtomicUsize = AtomicUsize::new(0);
        *GUARD.lock().unwrap() = Some(everywhere(|_: &Event<'_>| {
            RECEIVED.fetch_add(1, Relaxed);
            drop(GUARD.lock().unwrap().take());
        }));
        execute::range(0..4, 4, |_, _| ());
        execute::range(0..4, 4, |_, _| ());
        assert_eq!(RECEIVED.load(Relaxed), 4, "a call that runs keeps its observers");
        return;
    };
    ended.passed();
}

#[test]
fn an_observer_that_panics_during_a_panic_does_not_end_the_process() {
    let test = "adversity::observers::an_observer_that_panics_during_a_panic_does_not_end_the_process";
    if let Some(ended) = child::run(test, &[]) {
        ended.passed();
        return;
    }
    let observer = PanicsAt { kind: "Finished", raise: || panic!("twice"), notified: Mutex::default() };
    let with = execute::with::<NoCache>().observer(&observer);
    let body = AssertUnwindSafe(|| with.range(0..4, 4, |start, _| assert!(start > 0, "once")));
    let panic = catch_unwind(body).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"once"));
    assert_eq!(observer.notified.into_inner().unwrap().last().map(String::as_str), Some("Finished"));
}
