//! Tests that the panic hook is silent while an attempt is polled, and only for panics that are retried.
//!
//! The hook is process-wide, and it matters which part of the program sets it first, so each of these tests runs in a
//! process of its own.

use std::any::Any;
use std::cell::RefCell;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::runtime::Builder;
use tokio::task::yield_now;
use toma::NoCache;
use toma::chunk::{Chunk, ChunkOf, Chunked, Held};

use crate::asynchronous::{OUT_OF_MEMORY, block_on, pause, poll};
use crate::child;

/// Runs `test`, the body of the test of this name, in a process of its own.
fn in_a_process(name: &str, test: fn()) {
    if let Some(ended) = child::run(name, &[]) {
        ended.passed();
        return;
    }
    panic::set_hook(Box::new(|info| {
        // The output is shown if the child fails.
        eprintln!("{info}");
        let message = text(info.payload());
        PRINTED.with_borrow_mut(|printed| printed.push(message));
    }));
    test();
}

fn text(payload: &dyn Any) -> String {
    let literal = payload.downcast_ref::<&str>().map(ToString::to_string);
    payload.downcast_ref::<String>().cloned().or(literal).expect("these panics are texts")
}

thread_local! {
    static PRINTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Returns the panics of this thread that have reached the hook which was set before the first call.
fn printed() -> Vec<String> {
    PRINTED.take()
}

/// Compares the panics. A failed assertion is a panic, too, and must be printed.
fn check(printed: &[String], expected: &[&str]) {
    if printed != expected {
        eprintln!("printed: {printed:?}, expected: {expected:?}");
        std::process::abort();
    }
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn panics_late(size: usize, limit: usize) -> usize {
    pause().await;
    assert!(size <= limit, "{OUT_OF_MEMORY}");
    pause().await;
    size
}

#[toma::batch(initial = 16, cache = NoCache)]
async fn waits_and_panics(size: usize, go: Arc<AtomicBool>) -> usize {
    while !go.load(Relaxed) {
        yield_now().await;
    }
    assert!(size <= 1, "{OUT_OF_MEMORY}");
    size
}

#[toma::batch(initial = 4, cache = NoCache, before_retry = { pause().await; panic!("{OUT_OF_MEMORY}") })]
async fn panics_while_undoing(size: usize) -> usize {
    pause().await;
    assert!(size == 0, "{OUT_OF_MEMORY} in the body");
    size
}

/// Values for whose views there is no room.
#[derive(Debug)]
struct NoRoom;

impl ChunkOf<'_> for &NoRoom {
    type Held = NoRoom;
    type Chunk = &'static NoRoom;
}

impl Chunked for &NoRoom {
    fn extent(&self, _: isize) -> usize {
        8
    }

    fn hold(&mut self, _: isize, range: Range<usize>) -> Held<'_, Self> {
        panic!("{OUT_OF_MEMORY} for {}", range.len());
    }

    fn lend<'a>(_: &'a mut Held<'_, Self>) -> Chunk<'a, Self> {
        &NoRoom
    }
}

#[toma::chunked(initial = 8, cache = NoCache)]
async fn has_no_view(data: &NoRoom, start: usize, end: usize) {
    unreachable!("{start}..{end}: {data:?}");
}

fn panic_outside(text: &'static str) {
    catch_unwind(|| panic!("{text}")).unwrap_err();
}

/// The failure that is retried is silent, and a panic afterwards is printed.
#[test]
fn a_panic_of_undoing_is_printed_once() {
    in_a_process("asynchronous::hook::a_panic_of_undoing_is_printed_once", || {
        let payload = catch_unwind(|| block_on(panics_while_undoing())).unwrap_err();
        check(&[text(&*payload)], &[OUT_OF_MEMORY]);
        check(&printed(), &[OUT_OF_MEMORY]);
        // A loop around the call retries the panic.
        let mut fails = true;
        toma::execute::with::<NoCache>().batch(2, |_| {
            if std::mem::take(&mut fails) {
                block_on(panics_while_undoing());
            }
        });
        check(&printed(), &[]);
    });
}

#[test]
fn a_view_without_room_is_printed_once() {
    in_a_process("asynchronous::hook::a_view_without_room_is_printed_once", || {
        catch_unwind(|| block_on(has_no_view(&NoRoom))).unwrap_err();
        check(&printed(), &[&format!("{OUT_OF_MEMORY} for 1")]);
    });
}

#[test]
fn panics_of_others_are_printed_while_an_attempt_is_suspended() {
    in_a_process("asynchronous::hook::panics_of_others_are_printed_while_an_attempt_is_suspended", || {
        let mut future = pin!(panics_late(4));
        for _ in 0..6 {
            assert!(poll(future.as_mut()).is_pending());
            check(&printed(), &[]);
            panic_outside(OUT_OF_MEMORY);
            check(&printed(), &[OUT_OF_MEMORY]);
            panic_outside("something else");
            check(&printed(), &["something else"]);
        }
        assert!(poll(future.as_mut()).is_ready());
    });
}

#[test]
fn panics_of_others_are_printed_after_a_future_is_dropped() {
    in_a_process("asynchronous::hook::panics_of_others_are_printed_after_a_future_is_dropped", || {
        for polls in 0..7 {
            let mut future = Box::pin(panics_late(4));
            for _ in 0..polls {
                assert!(poll(future.as_mut()).is_pending());
            }
            drop(future);
            panic_outside(OUT_OF_MEMORY);
            check(&printed(), &[OUT_OF_MEMORY]);
        }
    });
}

#[test]
fn panics_of_another_task_of_the_thread_are_printed() {
    in_a_process("asynchronous::hook::panics_of_another_task_of_the_thread_are_printed", || {
        Builder::new_current_thread().build().unwrap().block_on(async {
            let go = Arc::<AtomicBool>::default();
            let ours = tokio::spawn(waits_and_panics(Arc::clone(&go)));
            let neighbor = tokio::spawn(async {
                yield_now().await;
                panic!("{OUT_OF_MEMORY}");
            });
            assert!(neighbor.await.unwrap_err().is_panic());
            check(&printed(), &[OUT_OF_MEMORY]);
            go.store(true, Relaxed);
            assert_eq!(ours.await.unwrap(), 1);
            check(&printed(), &[]);
        });
    });
}

#[test]
fn a_task_polled_inside_an_attempt_keeps_what_is_its_own() {
    in_a_process("asynchronous::hook::a_task_polled_inside_an_attempt_keeps_what_is_its_own", || {
        let mut suspended = Box::pin(panics_late(8));
        assert!(poll(suspended.as_mut()).is_pending());
        let size = toma::execute::with::<NoCache>().batch(4, |size| {
            assert!(poll(suspended.as_mut()).is_pending(), "the panic of the inner attempt is silent");
            panic_outside("something else");
            size
        });
        assert_eq!(size, 4);
        check(&printed(), &["something else"]);
        drop(AssertUnwindSafe(suspended));
        panic_outside(OUT_OF_MEMORY);
        check(&printed(), &[OUT_OF_MEMORY]);
    });
}
