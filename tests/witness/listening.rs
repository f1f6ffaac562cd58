//! Tests when the witness is notified at all.

use expect_test::expect;
use toma::classify::OutOfMemory;
use toma::device::on_release;
use toma::memory::Host;
use toma::observe::witness::{self, Attempted, Ended, Witness, listen};
use toma::predict::{DryCall, Predict, PredictedSize, run_dry};
use toma::{NoCache, execute, report};

use crate::scripted::{Session, asked};

struct Second;

impl Witness for Second {
    fn enter(&self, _: &Attempted<'_>) {}

    fn leave(&self) {}

    fn ended(&self, _: &Attempted<'_>, _: Ended) {}

    fn filled(&self) -> Option<String> {
        None
    }
}

/// Runs a range that fails with more than one item.
fn shrinks() {
    let body = |start, end| if end - start > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) };
    execute::with::<NoCache>().range(0..2, 2, body).unwrap();
}

#[test]
fn a_second_witness_is_refused() {
    let _session = Session::new();
    assert!(!witness::register(&Second));
}

#[test]
fn one_that_does_not_listen_costs_nothing() {
    let session = Session::silent();
    let call = || execute::with::<NoCache>().range(0..1000, 1, |_, _| ());
    call();
    assert_eq!(allocation_counter::measure(call).count_total, 0);
    shrinks();
    assert_eq!((session.take(), asked(), report::last().unwrap().filled), (String::new(), 0, None));
}

#[test]
fn a_call_that_began_before_is_asked_about_alone() {
    let session = Session::silent();
    execute::with::<NoCache>()
        .batch(2, |size| {
            listen(true);
            if size > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
        })
        .unwrap();
    assert_eq!(session.take(), "asked\n");
    assert_eq!(report::last().unwrap().filled.as_deref(), Some("a net\nanswer 1"));
}

#[test]
fn an_attempt_that_runs_is_reported_to_its_end() {
    let session = Session::new();
    execute::with::<NoCache>().range(0..2, 1, |_, _| {
        listen(false);
        shrinks();
    });
    expect![[r"
        enter a1 0..1
        leave a1
        ended a1: Succeeded
    "]]
    .assert_eq(&session.take());
    assert_eq!(asked(), 0);
}

/// A prediction that runs the body at two sizes, and runs a loop of its own.
#[derive(Debug)]
struct RunsDry;

impl Predict for RunsDry {
    fn predict(&self, _: Option<usize>, _: u64) -> Option<PredictedSize> {
        None
    }

    fn predict_dry(&self, call: &mut DryCall<'_>) -> Option<PredictedSize> {
        for size in call.sizes(4)? {
            let ran = run_dry(|| {
                let ran = call.run(size);
                call.take_back();
                ran
            });
            assert!(ran.is_ok_and(|ran| ran.is_err()), "it is out of memory dry");
        }
        Some(PredictedSize { size: 1, needs_bytes: 1 })
    }
}

#[test]
fn dry_runs_are_no_attempts() {
    let session = Session::new();
    let with = execute::with::<NoCache>().device(Host::shared()).predict(&RunsDry);
    with.range(0..4, 4, |start, end| {
        let inner = |size| if size > 1 || end - start > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) };
        execute::with::<NoCache>().batch(1, inner)
    })
    .unwrap();
    let received = session.take();
    assert_eq!(asked(), 0, "{received}");
    let entered: Vec<_> = received.lines().filter(|line| line.starts_with("enter")).collect();
    let of_call = |call: &str| format!("enter {call}1 0..1");
    assert_eq!(entered.len(), 8, "{received}");
    assert_eq!(entered[..2], [of_call("a"), of_call("b")], "{received}");
}

#[test]
fn a_dry_run_of_a_call_that_began_before_is_none_either() {
    let session = Session::new();
    let mut values = execute::with::<NoCache>().iter(0..3, 1, |start, _| start);
    assert_eq!(values.next(), Some(0));
    assert_eq!(run_dry(|| values.next()).map_err(drop), Ok(Some(1)));
    assert_eq!(values.next(), Some(2));
    let received = session.take();
    assert!(
        received.contains("a1 0..1") && !received.contains("1..2") && received.contains("a3 2..3"),
        "{received}"
    );
}

/// With a witness as without one, such a call asks no release hook.
#[test]
fn a_call_that_began_before_any_hook_asks_none() {
    let _session = Session::new();
    let (mut sizes, mut hooked) = (Vec::new(), Vec::new());
    let body = |start, end| {
        hooked.push(on_release(|_| true));
        sizes.push(end - start);
        if end - start > 4 { Err(OutOfMemory::new(None)) } else { Ok(()) }
    };
    execute::with::<NoCache>().range(0..8, 8, body).unwrap();
    assert_eq!(sizes, [8, 4, 4]);
}
