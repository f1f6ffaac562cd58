//! Tests which panics reach the panic hook: a panic that is retried is not printed, and one that goes through is
//! printed exactly once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use toma::{NoCache, execute, report};

use crate::child;
use crate::kit::{Memory, OUT_OF_MEMORY};
use crate::printed::texts;

/// Panics, although its return type does not show it.
fn fail(text: &str) {
    panic!("{text}");
}

/// Runs without printing, however `run` ends.
fn quietly(run: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(run)).is_ok()
}

/// Neither message has the name of a call, so the source location identifies the call.
#[test]
fn data_that_cannot_be_cut_are_placed_where_the_form_is_called() {
    #[toma::chunked(initial = 2, cache = NoCache)]
    fn annotated((_a, _b): (&[u8], &[u8]), _start: usize, _end: usize) {}

    let refused: [(u32, fn()); 3] = [
        (line!(), || execute::with::<NoCache>().dim(1).chunked(&[0; 3][..], 2, |_, _, _| ())),
        (line!(), || execute::chunked((&[0; 3][..], &[0; 4][..]), 2, |_, _, _| ())),
        (line!(), || annotated((&[0; 3], &[0; 4]))),
    ];
    for (line, call) in refused {
        let (done, texts) = texts(|| quietly(call));
        let place = format!("{}:{line}:", file!());
        assert!(!done && texts.len() == 1 && texts[0].contains(&place), "{place} {texts:?}");
    }
}

fn spend(time: Duration) {
    let start = Instant::now();
    while start.elapsed() <= time {
        thread::yield_now();
    }
}

/// Compares the output of a process that has the default panic hook.
#[test]
fn stderr_has_each_panic_once() {
    let Some(ended) = child::run("rules::printing::stderr_has_each_panic_once", &[]) else { return play() };
    let text = ended.passed().join("\n");
    for scenario in SCENARIOS {
        let times = text.matches(&format!("<{}>", scenario.name)).count();
        assert_eq!(times, scenario.prints, "{}: {text}", scenario.name);
    }
    assert_eq!(
        text.matches("panicked at").count(),
        SCENARIOS.iter().map(|s| s.prints).sum::<usize>(),
        "{text}"
    );
}

struct Scenario {
    name: &'static str,
    prints: usize,
    run: fn(&str),
}

const SCENARIOS: &[Scenario] = &[
    Scenario { name: "retried", prints: 0, run: |id| fails_above(1, OUT_OF_MEMORY, id) },
    Scenario { name: "total failure", prints: 1, run: |id| fails_above(0, OUT_OF_MEMORY, id) },
    Scenario { name: "other", prints: 1, run: |id| fails_above(4, "size mismatch", id) },
    Scenario { name: "transient once", prints: 0, run: transient_once },
    Scenario { name: "transient", prints: 1, run: |id| fails_above(4, "CUBLAS_STATUS_INTERNAL_ERROR", id) },
    Scenario { name: "too late", prints: 1, run: |id| too_late(|| panic!("{OUT_OF_MEMORY} <{id}>")) },
    // The hook of the standard library shows the type of a payload that is no text.
    Scenario { name: "dyn Any", prints: 1, run: |id| too_late(|| panic_with_box(id)) },
    Scenario { name: "too late, registered", prints: 1, run: |id| too_late(|| panic_with_type(id)) },
    Scenario { name: "nested, retried inside", prints: 0, run: |id| nested(1, id) },
    Scenario { name: "nested, retried outside", prints: 0, run: |id| nested_outside(2, id) },
    Scenario { name: "nested, total failure", prints: 1, run: |id| nested_outside(0, id) },
    Scenario { name: "nested, too late outside", prints: 1, run: |id| too_late(|| nested(0, id)) },
    Scenario { name: "another thread", prints: 1, run: on_another_thread },
    Scenario { name: "async, total failure", prints: 1, run: asynchronous },
    Scenario { name: "items left out", prints: 0, run: items_left_out },
    Scenario { name: "items kept", prints: 1, run: items_kept },
    Scenario { name: "left out for want of memory in the end", prints: 0, run: left_out_of_full_memory },
    Scenario { name: "one the body keeps, one it does not", prints: 1, run: kept_by_the_body },
    Scenario { name: "a loop in a destructor", prints: 1, run: |id| too_late(|| panic_around_a_loop(id)) },
    Scenario { name: "while undoing", prints: 1, run: while_undoing },
];

fn play() {
    toma::classify::add_error::<Registered>(|_| Some(toma::classify::Class::OutOfMemory));
    for scenario in SCENARIOS {
        let _ = quietly(|| (scenario.run)(scenario.name));
    }
}

fn fails_above(most: usize, text: &str, id: &str) {
    execute::with::<NoCache>().batch(8, |size| assert!(size <= most, "{text} <{id}>"));
}

fn items_left_out(id: &str) {
    execute::with::<NoCache>().by_cost(|_| 4).left_out(drop).range(0..4, 4, |start, _| heavy(start, id));
}

/// The failure of the first item that fits nowhere goes through once the others are done.
fn items_kept(id: &str) {
    execute::with::<NoCache>().by_cost(|_| 4).range(0..4, 4, |start, _| heavy(start, id));
}

fn heavy(start: usize, id: &str) {
    assert!(start.is_multiple_of(2), "{OUT_OF_MEMORY} <{id}>");
}

fn transient_once(id: &str) {
    let mut failed = false;
    execute::with::<NoCache>().batch(8, |_| {
        assert!(std::mem::replace(&mut failed, true), "CUBLAS_STATUS_INTERNAL_ERROR <{id}>");
    });
}

fn too_late(fail: impl Fn()) {
    let deadline = Duration::from_millis(1);
    execute::with::<NoCache>().deadline(deadline).batch(8, |_| {
        spend(deadline);
        fail();
    });
}

/// A panic on a thread that the body spawned has no loop around it that would recover.
fn on_another_thread(id: &str) {
    let text = format!("{OUT_OF_MEMORY} <{id}>");
    execute::with::<NoCache>().batch(8, |_| {
        let text = text.clone();
        std::thread::spawn(move || fail(&text)).join().unwrap_err();
    });
}

fn panic_with_box(id: &str) {
    std::panic::panic_any(Box::<dyn std::error::Error + Send + Sync>::from(format!(
        "{OUT_OF_MEMORY} <{id}>"
    )));
}

#[derive(Debug)]
struct Registered(String);

impl std::fmt::Display for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "<{}>", self.0)
    }
}

impl std::error::Error for Registered {}

fn panic_with_type(id: &str) {
    std::panic::panic_any(Registered(id.to_owned()));
}

fn nested(most: usize, id: &str) {
    execute::with::<NoCache>().batch(8, |_| fails_above(most, OUT_OF_MEMORY, id));
}

/// The inner loop cannot recover, because the failure depends on the outer size.
fn nested_outside(most: usize, id: &str) {
    execute::with::<NoCache>().batch(8, |outer| {
        execute::with::<NoCache>().batch(2, |_| assert!(outer <= most, "{OUT_OF_MEMORY} <{id}>"));
    });
}

#[toma::batch(initial = 8)]
async fn fails(batch_size: usize, id: &str) {
    assert!(batch_size == 0, "{OUT_OF_MEMORY} <{id}>");
}

fn asynchronous(id: &str) {
    crate::executor::block_on(fails(id));
}

/// A failure of unknown class counts as out of memory if the memory is full.
fn left_out_of_full_memory(id: &str) {
    let full = Memory::new(1, 100);
    let form = execute::with::<NoCache>().device(&full).by_cost(|_| 10_u64).left_out(drop);
    form.range(0..4, 20, |start, end| {
        assert!(!(start..end).contains(&2), "CUBLAS_STATUS_INTERNAL_ERROR <{id}>");
    });
    assert_eq!(report::last().unwrap().left_out, [2]);
}

fn kept_by_the_body(id: &str) {
    execute::with::<NoCache>().batch(8, |_| {
        quietly(|| panic!("{OUT_OF_MEMORY} <{id}>"));
        fail(&format!("size mismatch <{id}>"));
    });
}

/// Runs a loop of its own when it is dropped, with failures that the loop recovers from.
struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        execute::with::<NoCache>().range(0..8, 8, |start, end| assert!(end - start < 3, "{OUT_OF_MEMORY}"));
    }
}

fn panic_around_a_loop(id: &str) {
    let _flush = Flush;
    panic!("{OUT_OF_MEMORY} <{id}>");
}

fn while_undoing(id: &str) {
    let form = execute::with::<NoCache>().before_retry(|_| panic!("{OUT_OF_MEMORY}: nothing to undo <{id}>"));
    form.batch(8, |_| fail(OUT_OF_MEMORY));
}
