//! Threads with the smallest stacks.

use std::thread;

use toma::classify::OutOfMemory;
use toma::observe::{Event, everywhere};
use toma::{GlobalCache, NoCache, execute};

use crate::child;
use crate::kit::{Fails, every_form};

/// What [`toma::execute`] says that a call takes; less than the smallest stack a thread can have on
/// most platforms when the program is optimized.
const CALL_BYTES: usize = if cfg!(debug_assertions) { 32 << 10 } else { 16 << 10 };

/// Lets a thread with a stack of `bytes` work; a stack that is too small ends the process.
fn on_a_stack_of(bytes: usize, work: fn()) {
    let thread = thread::Builder::new().stack_size(bytes).spawn(work);
    thread.expect("the platform raises the size to its minimum").join().unwrap();
}

#[test]
fn a_call_fits_on_the_smallest_stack() {
    let Some(ended) = child::run("stacks::a_call_fits_on_the_smallest_stack", &[]) else {
        // Each is the first of its thread, one of them the first of the process.
        on_a_stack_of(CALL_BYTES, || {
            settles(|size| if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) })
        });
        on_a_stack_of(CALL_BYTES, || {
            settles(|size| {
                assert!(size <= 2, "CUDA out of memory. Tried to allocate {size}.00 GiB");
                Ok(())
            });
        });
        on_a_stack_of(CALL_BYTES, gives_up);
        let _seen = everywhere(|_: &Event<'_>| ());
        on_a_stack_of(CALL_BYTES, || {
            settles(|size| if size > 2 { Err(OutOfMemory::new(None)) } else { Ok(()) })
        });
        return;
    };
    assert_eq!(ended.passed(), [""; 0]);
}

/// Twice by the default cache and twice by a global one.
fn settles(attempt: fn(usize) -> Result<(), OutOfMemory>) {
    for _ in 0..2 {
        execute::range(0..9, 8, |start, end| attempt(end - start)).unwrap();
        execute::with::<GlobalCache>().range(0..9, 8, |start, end| attempt(end - start)).unwrap();
    }
}

fn gives_up() {
    let ended = execute::with::<NoCache>().range(0..9, 8, |_, _| Err(OutOfMemory::new(None)));
    assert!(ended.is_err());
}

/// The frames of the test itself are large without optimization.
#[test]
fn every_form_fits_on_a_small_stack() {
    let Some(ended) = child::run("stacks::every_form_fits_on_a_small_stack", &[]) else {
        let bytes = if cfg!(debug_assertions) { 64 << 10 } else { CALL_BYTES };
        on_a_stack_of(bytes, || every_form(Fails::Never));
        on_a_stack_of(bytes, || every_form(Fails::ByError));
        on_a_stack_of(bytes, || every_form(Fails::ByPanic));
        return;
    };
    assert_eq!(ended.passed(), [""; 0]);
}
