//! A witness that panics, and one that runs loops itself.

use std::cell::Cell;
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use toma::classify::OutOfMemory;
use toma::observe::witness::listen;
use toma::observe::{Event, everywhere};
use toma::{NoCache, execute, report};

use crate::executor::{block_on, pause};
use crate::scripted::{Session, asked, set_meanwhile};
use crate::{child, scripted};

const FUNCTIONS: [&str; 4] = ["enter", "leave", "ended", "filled"];

/// Returns the sizes that a range in a range tries, which fails by an error, by a panic, and in a task.
fn sizes() -> Vec<usize> {
    let mut sizes = Vec::new();
    execute::with::<NoCache>()
        .range(0..4, 4, |start, end| {
            sizes.push(end - start);
            assert!(end - start < 4, "CUDA out of memory.");
            let inner = execute::with::<NoCache>().batch(2, |size| {
                sizes.push(size);
                if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
            });
            inner?;
            block_on(task())
        })
        .unwrap();
    sizes
}

#[toma::batch(initial = 2, cache = NoCache)]
async fn task(size: usize) -> Result<(), OutOfMemory> {
    pause().await;
    if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
}

/// A panic that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload panics, too");
    }
}

/// Panics at each function of the witness, the first time, the second time and so on. Runs in a process of its own,
/// because it writes many lines to standard error.
#[test]
fn one_that_panics_is_notified_no_more_and_the_work_goes_on() {
    let raises: [fn(); 3] =
        [|| panic!("a mistake"), || panic_any(OutOfMemory::new(None)), || panic_any(Bomb)];
    let test = "trouble::one_that_panics_is_notified_no_more_and_the_work_goes_on";
    if let Some(ended) = child::run(test, &[]) {
        let expected = "toma: the witness panicked and receives no attempt that begins from now on";
        let printed = ended.passed().iter().filter(|line| *line == expected).count();
        assert_eq!(printed, raises.len() * FUNCTIONS.len() * 5);
        return;
    }
    for raise in raises {
        for function in FUNCTIONS {
            for nth in 0..5 {
                check(raise, function, nth);
            }
        }
    }
}

/// Panics when this function is called for the `nth` time.
fn check(raise: fn(), function: &'static str, nth: usize) {
    let expected = sizes();
    let session = Session::new();
    let left = Cell::new(nth + 1);
    set_meanwhile(move |now| {
        if now == function && left.replace(left.get().saturating_sub(1)) == 1 {
            raise();
        }
    });
    assert_eq!(sizes(), expected, "{function} {nth}");
    assert_eq!(scripted::depth(), 0, "{function} {nth}");
    scripted::lines();
    assert_eq!(sizes(), expected);
    assert_eq!(scripted::lines(), Vec::<String>::new(), "it does not listen any more: {function} {nth}");
    set_meanwhile(|_| ());
    listen(true);
    assert_eq!(sizes(), expected);
    assert!(!session.received_again().is_empty(), "until it stops listening");
}

#[test]
fn one_that_panics_while_another_panic_goes_through_does_not_end_the_process() {
    let test = "trouble::one_that_panics_while_another_panic_goes_through_does_not_end_the_process";
    if let Some(ended) = child::run(test, &[]) {
        ended.passed();
        return;
    }
    for function in ["leave", "ended"] {
        let _session = Session::new();
        set_meanwhile(move |now| assert!(now != function, "twice"));
        let judge = |_: &OutOfMemory| -> toma::classify::Class { panic!("once") };
        let call =
            || execute::with::<NoCache>().classify(judge).batch(8, |_| Err::<(), _>(OutOfMemory::new(None)));
        let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"once"));
    }
}

/// Neither the witness nor process-wide observers are notified of the loops that the witness runs.
#[test]
fn one_may_run_loops_itself() {
    static NOTIFIED: AtomicUsize = AtomicUsize::new(0);
    let session = Session::silent();
    let expected = sizes();
    listen(true);
    let guard = everywhere(|_: &Event<'_>| {
        NOTIFIED.fetch_add(1, Relaxed);
    });
    sizes();
    let (plain, events, questions) = (session.take(), NOTIFIED.swap(0, Relaxed), asked());
    set_meanwhile(|_| {
        let own = Cell::new(0);
        let fails = |size| {
            own.set(own.get() + 1);
            if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        };
        execute::with::<NoCache>().batch(2, fails).unwrap();
        assert_eq!((own.get(), report::last().unwrap().filled), (2, None));
        block_on(task()).unwrap();
    });
    assert_eq!(sizes(), expected);
    drop(guard);
    let received = session.take();
    assert_eq!(received.lines().count(), plain.lines().count(), "{received}");
    assert_eq!((asked(), NOTIFIED.load(Relaxed)), (2 * questions, events));
}

/// Loops of an observer count as work, so the witness is notified of them.
#[test]
fn it_is_notified_of_loops_of_observers() {
    let session = Session::new();
    let observer = |event: &Event<'_>| {
        if let toma::observe::EventKind::Failed { .. } = event.kind {
            execute::with::<NoCache>().batch(1, |_| ());
        }
    };
    let body = |size| if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) };
    execute::with::<NoCache>().observer(&observer).batch(2, body).unwrap();
    let received = session.take();
    assert!(
        received.contains("asked\nenter b1 0..1\nleave b1\nended b1: Succeeded\nenter a1 0..2 again\n"),
        "{received}"
    );
}
