//! Notifications of the witness in each form.

use std::panic::{AssertUnwindSafe, catch_unwind};

use expect_test::expect;
use toma::classify::OutOfMemory;
use toma::device::{Ladder, falls_back};
use toma::observe::{Event, EventKind};
use toma::{NoCache, execute};

use crate::executor::block_on;
use crate::scripted::{Session, depth, note};

/// An error whose drop is recorded as a note, with the depth in attempts at that moment.
#[derive(Debug)]
struct Held(&'static str);

impl Drop for Held {
    fn drop(&mut self) {
        note(format!("{} dropped at depth {}", self.0, depth()));
    }
}

/// A body with room for at most two items.
fn body(start: usize, end: usize) -> Result<usize, (OutOfMemory, Held)> {
    note(format!("body {start}..{end} at depth {}", depth()));
    if end - start > 2 { Err((OutOfMemory::new(None), Held("error"))) } else { Ok(end - start) }
}

fn class((error, _): &(OutOfMemory, Held)) -> toma::classify::Failure {
    toma::classify::Failure::new(toma::classify::Class::OutOfMemory, error.to_string())
}

fn see(event: &Event<'_>) {
    match event.kind {
        EventKind::Attempt { .. } => note("event: attempt"),
        EventKind::Succeeded { .. } => note("event: succeeded"),
        EventKind::Failed { filled, .. } => note(format!("event: failed, filled {filled:?}")),
        EventKind::Answered { answer, .. } => note(format!("event: {answer}")),
        _ => {}
    }
}

#[test]
fn the_order_of_notifications() {
    let session = Session::new();
    execute::with::<NoCache>()
        .observer(&see)
        .classify(class)
        .before_retry(|_| note(format!("undone at depth {}", depth())))
        .range(0..3, 3, |start, end| body(start, end).map(drop))
        .unwrap();
    expect![[r#"
        event: attempt
        enter a1 0..3
        body 0..3 at depth 1
        leave a1
        asked
        event: failed, filled Some("a net\nanswer 1")
        enter a1 0..3 again
        error dropped at depth 1
        leave a1
        ended a1: Failed(OutOfMemory)
        undone at depth 0
        event: shrinks to 1
        event: attempt
        enter a2 0..1
        body 0..1 at depth 1
        leave a2
        ended a2: Succeeded
        event: succeeded
        event: attempt
        enter a3 1..2
        body 1..2 at depth 1
        leave a3
        ended a3: Succeeded
        event: succeeded
        event: attempt
        enter a4 2..3
        body 2..3 at depth 1
        leave a4
        ended a4: Succeeded
        event: succeeded
    "#]]
    .assert_eq(&session.take());
}

/// Returns the notifications of a form that processes four items with room for two.
fn four_items() -> expect_test::Expect {
    expect![[r"
        enter a1 0..4
        leave a1
        asked
        enter a1 0..4 again
        leave a1
        ended a1: Failed(OutOfMemory)
        enter a2 0..2
        leave a2
        ended a2: Succeeded
        enter a3 2..4
        leave a3
        ended a3: Succeeded
    "]]
}

fn fails(start: usize, end: usize) -> Result<usize, OutOfMemory> {
    if end - start > 2 { Err(OutOfMemory::new(None)) } else { Ok(end) }
}

#[toma::range(initial = 4, cache = NoCache)]
fn attributed(start: usize, end: usize) -> Result<(), OutOfMemory> {
    fails(start, end).map(drop)
}

#[toma::range(initial = 4, cache = NoCache)]
async fn awaited(start: usize, end: usize) -> Result<(), OutOfMemory> {
    fails(start, end).map(drop)
}

#[test]
fn all_forms_report_the_same() {
    let session = Session::new();
    let with = || execute::with::<NoCache>();
    let forms: [(&str, &dyn Fn()); 9] = [
        ("range", &|| with().range(0..4, 4, |start, end| fails(start, end).map(drop)).unwrap()),
        ("panics", &|| with().range(0..4, 4, |start, end| assert!(end - start < 3, "CUDA out of memory."))),
        ("chunked", &|| with().chunked(&[0; 4][..], 4, |_, start, end| fails(start, end).map(drop)).unwrap()),
        ("map", &|| drop(with().map(0..4, 4, fails).unwrap())),
        ("fold", &|| _ = with().fold(0..4, 4, 0, |_, start, end| fails(start, end)).unwrap()),
        ("iter", &|| with().iter(0..4, 4, fails).for_each(|value| _ = value.unwrap())),
        ("attribute", &|| attributed(0, 4).unwrap()),
        ("async", &|| block_on(awaited(0, 4)).unwrap()),
        ("stream", &|| {
            let mut stream = with().stream(0..4, 4, async |start, end| fails(start, end));
            while block_on(stream.next()).is_some() {}
        }),
    ];
    for (name, form) in forms {
        form();
        let received = session.take();
        assert!(received.starts_with("enter"), "{name}");
        // Each call gets a new letter on the thread.
        let first = received.chars().nth("enter ".len()).unwrap();
        four_items().assert_eq(&received.replace(&format!(" {first}"), " a"));
    }
}

#[test]
fn a_batch_that_gives_up_and_one_that_fails_otherwise() {
    let session = Session::new();
    execute::with::<NoCache>().batch(2, |_| Err::<(), _>(OutOfMemory::new(None))).unwrap_err();
    let wrong = catch_unwind(AssertUnwindSafe(|| {
        execute::with::<NoCache>().batch(8, |size| assert!(size == 0, "wrong shape"));
    }));
    wrong.unwrap_err();
    expect![[r"
        enter a1 0..2
        leave a1
        asked
        enter a1 0..2 again
        leave a1
        ended a1: Failed(OutOfMemory)
        enter a2 0..1
        leave a2
        asked
        ended a2: Failed(OutOfMemory)
        enter b1 0..8
        leave b1
        ended b1: Failed(Other)
    "]]
    .assert_eq(&session.take());
}

#[test]
fn loops_inside_are_entered_inside() {
    let session = Session::new();
    execute::with::<NoCache>()
        .batch(2, |outer| {
            execute::with::<NoCache>().range(0..2, 2, |start, end| {
                if outer * (end - start) > 1 { Err(OutOfMemory::new(None)) } else { Ok(()) }
            })
        })
        .unwrap();
    expect![[r"
        enter a1 0..2
        enter b1 0..2
        leave b1
        asked
        enter b1 0..2 again
        leave b1
        ended b1: Failed(OutOfMemory)
        enter b2 0..1
        leave b2
        asked
        ended b2: Failed(OutOfMemory)
        leave a1
        asked
        enter a1 0..2 again
        leave a1
        ended a1: Failed(OutOfMemory)
        enter a2 0..1
        enter c1 0..2
        leave c1
        asked
        enter c1 0..2 again
        leave c1
        ended c1: Failed(OutOfMemory)
        enter c2 0..1
        leave c2
        ended c2: Succeeded
        enter c3 1..2
        leave c3
        ended c3: Succeeded
        leave a2
        ended a2: Succeeded
    "]]
    .assert_eq(&session.take());
}

#[test]
fn items_that_are_left_out_are_dropped_inside() {
    let session = Session::new();
    let body = |start: usize, end: usize| {
        if (start..end).contains(&1) { Err((OutOfMemory::new(None), Held("item"))) } else { Ok(()) }
    };
    let with = execute::with::<NoCache>().classify(class).by_cost(|item| if item == 1 { 9 } else { 2_u64 });
    with.left_out(|item| note(format!("left out: {}", item.index))).range(0..3, 9, body).unwrap();
    expect![[r"
        enter a1 0..1 of 2
        leave a1
        ended a1: Succeeded
        enter a2 1..2 of 9
        leave a2
        asked
        enter a2 1..2 of 9 again
        item dropped at depth 1
        leave a2
        ended a2: Failed(OutOfMemory)
        left out: 1
        enter a3 2..3 of 2
        leave a3
        ended a3: Succeeded
    "]]
    .assert_eq(&session.take());
    // The error is kept, and the caller drops it outside of the attempt.
    let with = execute::with::<NoCache>().classify(class).by_cost(|item| if item == 1 { 9 } else { 2_u64 });
    drop(with.range(0..3, 9, body).unwrap_err());
    let received = session.take();
    assert!(received.ends_with("ended b3: Succeeded\nitem dropped at depth 0\n"), "{received}");
}

#[test]
fn attempts_in_fallback_are_attempts() {
    let session = Session::new();
    let with = execute::with::<NoCache>().ladder(Ladder::default().fallback(true));
    with.batch(1, |_| if falls_back() { Ok(()) } else { Err(OutOfMemory::new(None)) }).unwrap();
    let received = session.take();
    assert!(
        received.ends_with("ended a1: Failed(OutOfMemory)\nenter a2 0..1\nleave a2\nended a2: Succeeded\n")
    );
}

#[test]
fn a_call_that_judges_with_a_panic_leaves_its_attempt() {
    let session = Session::new();
    let judge = |_: &OutOfMemory| -> toma::classify::Class { panic!("no opinion") };
    let call = AssertUnwindSafe(|| {
        execute::with::<NoCache>().classify(judge).batch(8, |_| Err::<(), _>(OutOfMemory::new(None)))
    });
    catch_unwind(call).unwrap_err();
    expect![[r"
        enter a1 0..8
        leave a1
        ended a1: Abandoned
    "]]
    .assert_eq(&session.take());
}
