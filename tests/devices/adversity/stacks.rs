//! Threads with the smallest stacks.

use std::thread;

use toma::cache::SizeCache;
use toma::classify::OutOfMemory;
use toma::observe::{Event, everywhere};
use toma::{GlobalCache, NoCache, execute, report};

use crate::adversity::kit::{Fails, every_form};
use crate::child;

/// Stack bytes that a call needs according to [`toma::execute`]. In an optimized program that is less than the smallest
/// stack that a thread can have on most platforms.
const CALL_BYTES: usize = if cfg!(debug_assertions) { 32 << 10 } else { 16 << 10 };

/// Runs `work` on a thread with a stack of `bytes`. A stack that is too small ends the process.
fn on_a_stack_of(bytes: usize, work: fn()) {
    let thread = thread::Builder::new().stack_size(bytes).spawn(work);
    thread.expect("the platform raises the size to its minimum").join().unwrap();
}

#[test]
fn a_call_fits_on_the_smallest_stack() {
    let Some(ended) = child::run("adversity::stacks::a_call_fits_on_the_smallest_stack", &[]) else {
        // Each call is the first of its thread, and one of them the first of the process.
        on_a_stack_of(CALL_BYTES, || settles(Fails::ByError));
        on_a_stack_of(CALL_BYTES, || settles(Fails::ByPanic));
        on_a_stack_of(CALL_BYTES, gives_up);
        let _seen = everywhere(|_: &Event<'_>| ());
        on_a_stack_of(CALL_BYTES, || settles(Fails::ByError));
        return;
    };
    assert_eq!(ended.passed(), [""; 0]);
}

/// Learns and recalls a size with the default cache and with a global one.
fn settles(fails: Fails) {
    GlobalCache::shared().clear();
    for _ in 0..2 {
        execute::range(0..9, 8, |start, end| fails.attempt(end - start).map(drop)).unwrap();
        let with = execute::with::<GlobalCache>();
        with.range(0..9, 8, |start, end| fails.attempt(end - start).map(drop)).unwrap();
    }
    let report = report::last().unwrap();
    assert_eq!((report.remembered, report.attempts), (Some(2), 5));
}

fn gives_up() {
    let ended = execute::with::<NoCache>().range(0..9, 8, |_, _| Err(OutOfMemory::new(None)));
    assert!(ended.is_err());
}

/// The frames of the test itself are large without optimization.
#[test]
fn every_form_fits_on_a_small_stack() {
    let Some(ended) = child::run("adversity::stacks::every_form_fits_on_a_small_stack", &[]) else {
        let bytes = if cfg!(debug_assertions) { 64 << 10 } else { CALL_BYTES };
        on_a_stack_of(bytes, || every_form(Fails::Never));
        on_a_stack_of(bytes, || every_form(Fails::ByError));
        on_a_stack_of(bytes, || every_form(Fails::ByPanic));
        return;
    };
    assert_eq!(ended.passed(), [""; 0]);
}
