//! Errors and panic payloads that carry no information, or that fail themselves.

use std::any::Any;
use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use toma::classify::OutOfMemory;
use toma::observe::Reason;
use toma::{NoCache, execute, report};

/// Returns the payload that comes out of a body which panics with `payload`.
fn passed_on<P: Any + Send + Copy>(payload: P, attempts: &Cell<usize>) -> Box<dyn Any + Send> {
    let body = |start, _| {
        attempts.set(attempts.get() + 1);
        if start == 0 {
            panic_any(payload);
        }
    };
    catch_unwind(AssertUnwindSafe(|| execute::with::<NoCache>().range(0..8, 8, body))).unwrap_err()
}

#[test]
fn a_payload_of_an_unknown_type_goes_through_at_once() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct OutOfMemoryOfSomeoneElse(u32);

    let attempts = Cell::new(0);
    assert_eq!(passed_on(5_u8, &attempts).downcast_ref(), Some(&5_u8));
    assert_eq!(passed_on((), &attempts).downcast_ref(), Some(&()));
    let own = OutOfMemoryOfSomeoneElse(3);
    assert_eq!(passed_on(own, &attempts).downcast_ref(), Some(&own));
    assert_eq!(attempts.get(), 3);
    assert_eq!(report::last().unwrap().gave_up, Some(Reason::NotOutOfMemory));
}

#[test]
fn a_box_in_a_box_is_no_text() {
    let inner: Box<dyn Any + Send> = Box::new("CUDA out of memory");
    let payload = Cell::new(Some(inner));
    let body = |_, _| {
        if let Some(payload) = payload.take() {
            resume_unwind(Box::new(payload));
        }
    };
    let panic =
        catch_unwind(AssertUnwindSafe(|| execute::with::<NoCache>().range(0..8, 8, body))).unwrap_err();
    let inner = panic.downcast::<Box<dyn Any + Send>>().unwrap();
    assert_eq!((*inner).downcast_ref(), Some(&"CUDA out of memory"));
}

/// An out-of-memory failure, as an error or as a payload, whose `Drop` panics.
#[derive(Debug)]
struct Bomb;

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CUDA out of memory. Tried to allocate 2.00 GiB")
    }
}

impl Error for Bomb {}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropping it failed");
    }
}

#[test]
fn an_error_or_payload_whose_drop_panics_ends_the_call_with_that_panic() {
    for panics in [false, true] {
        let mut attempts = 0;
        let call = AssertUnwindSafe(|| {
            execute::with::<NoCache>().range(0..8, 8, |_, _| {
                attempts += 1;
                if panics { panic_any(boxed(Bomb)) } else { Err(Bomb) }
            })
        });
        let panic = catch_unwind(call).unwrap_err();
        assert_eq!((panic.downcast_ref(), attempts), (Some(&"dropping it failed"), 1));
        works();
    }
}

fn boxed(error: impl Error + Send + Sync + 'static) -> Box<dyn Error + Send + Sync> {
    Box::new(error)
}

#[test]
fn a_payload_whose_drop_panics_is_passed_on_whole() {
    let body = |_: usize| -> usize { panic_any(boxed(Bomb)) };
    let panic = catch_unwind(AssertUnwindSafe(|| execute::with::<NoCache>().batch(1, body))).unwrap_err();
    let error = panic.downcast::<Box<dyn Error + Send + Sync>>().unwrap();
    assert!(error.is::<Bomb>());
    std::mem::forget(error);
    works();
}

/// Asserts that calls on this thread still work after the failures before.
fn works() {
    let mut tried = Vec::new();
    execute::with::<NoCache>().range(0..4, 4, |start, end| {
        tried.push((start, end));
        if end - start > 2 {
            panic_any(OutOfMemory::new(None));
        }
    });
    assert_eq!(tried, [(0, 4), (0, 2), (2, 4)]);
    let report = report::last().unwrap();
    assert_eq!((report.attempts, report.out_of_memory, report.done), (3, 1, 4));
}

/// Runs a body that panics while it holds a lock. Returns the sizes tried, and the panic that comes out.
fn holding_a_lock(lock: impl Fn(&Mutex<()>) -> MutexGuard<'_, ()>) -> (Vec<usize>, Option<String>) {
    let (mutex, mut tried) = (Mutex::new(()), Vec::new());
    let call = AssertUnwindSafe(|| {
        execute::with::<NoCache>().batch(8, |size| {
            tried.push(size);
            let _held = lock(&mutex);
            assert!(size < 3, "CUDA out of memory. Tried to allocate 2.00 GiB");
        });
    });
    let panic = catch_unwind(call).err().map(|panic| *panic.downcast().unwrap());
    (tried, panic)
}

#[test]
fn a_lock_that_the_panic_poisoned_ends_the_call_unless_the_body_takes_it_all_the_same() {
    let (tried, panic) = holding_a_lock(|mutex| mutex.lock().unwrap());
    assert_eq!(tried, [8, 4]);
    let panic = panic.unwrap();
    assert!(panic.contains("PoisonError"), "{panic}");
    assert_eq!(report::last().unwrap().gave_up, Some(Reason::NotOutOfMemory));
    let cured = holding_a_lock(|mutex| mutex.lock().unwrap_or_else(PoisonError::into_inner));
    assert_eq!(cured, (vec![8, 4, 2], None));
}
