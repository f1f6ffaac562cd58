//! Calls while a panic unwinds: in a destructor, and in the panic hook.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, set_hook, take_hook};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use toma::classify::OutOfMemory;
use toma::{NoCache, execute};

use crate::adversity::kit::{Fails, every_form};
use crate::child;

/// Runs all forms when it is dropped.
struct OnDrop<'a>(Fails, &'a AtomicUsize);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        assert!(std::thread::panicking());
        every_form(self.0);
        self.1.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_call_works_in_a_destructor_during_a_panic() {
    let ran = AtomicUsize::new(0);
    for fails in Fails::ALL {
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _on_drop = OnDrop(fails, &ran);
            panic!("under way");
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"under way"));
    }
    assert_eq!(ran.load(Relaxed), 3);
}

#[test]
fn a_call_works_in_a_destructor_of_an_attempt_that_fails() {
    let (ran, mut tried) = (AtomicUsize::new(0), Vec::new());
    for fails in Fails::ALL {
        execute::with::<NoCache>().range(0..4, 4, |start, end| {
            tried.push((start, end));
            if end - start > 2 {
                let _on_drop = OnDrop(fails, &ran);
                panic_any(OutOfMemory::new(None));
            }
        });
    }
    assert_eq!(tried, [(0, 4), (0, 2), (2, 4)].repeat(3));
    assert_eq!(ran.load(Relaxed), 3);
}

/// The first call of the process is made while a panic unwinds, when the panic hook cannot be changed.
#[test]
fn the_first_call_may_come_during_a_panic() {
    let Some(ended) = child::run("adversity::unwinding::the_first_call_may_come_during_a_panic", &[]) else {
        let ran = AtomicUsize::new(0);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let _on_drop = OnDrop(Fails::ByError, &ran);
            panic!("under way");
        }));
        assert!(panic.is_err() && ran.load(Relaxed) == 1);
        // From the next call on, retried panics are silent.
        every_form(Fails::ByPanic);
        return;
    };
    let stderr = ended.passed();
    assert_eq!(stderr.iter().filter(|line| line.contains("panicked at")).count(), 1, "{stderr:?}");
}

/// Sets a panic hook that runs all forms. A failure by a panic cannot be recovered inside the hook.
fn hook_that_calls(ran: &'static AtomicUsize) {
    let previous = take_hook();
    set_hook(Box::new(move |info| {
        every_form(Fails::Never);
        every_form(Fails::ByError);
        ran.fetch_add(1, Relaxed);
        previous(info);
    }));
}

static RAN: AtomicUsize = AtomicUsize::new(0);

fn breaks(_: usize, _: usize) {
    panic!("broken");
}

fn panic_and_retry() {
    let panic = catch_unwind(|| execute::with::<NoCache>().range(0..4, 4, breaks));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"broken"));
    let mut done = Vec::new();
    execute::with::<NoCache>().range(0..4, 4, |start, end| {
        assert!(end - start < 3, "CUDA out of memory. Tried to allocate 2.00 GiB");
        done.push((start, end));
    });
    assert_eq!(done, [(0, 2), (2, 4)]);
}

#[test]
fn a_call_works_in_a_panic_hook() {
    let Some(ended) = child::run("adversity::unwinding::a_call_works_in_a_panic_hook", &[]) else {
        // Set before the library installs its own hook in front.
        hook_that_calls(&RAN);
        panic_and_retry();
        assert_eq!(RAN.load(Relaxed), 1, "what is tried again does not reach the hooks behind");
        return;
    };
    let stderr = ended.passed();
    assert_eq!(stderr.iter().filter(|line| *line == "broken").count(), 1, "{stderr:?}");
    assert_eq!(stderr.iter().filter(|line| line.contains("panicked at")).count(), 1, "{stderr:?}");
}

#[test]
fn a_call_works_in_a_panic_hook_in_front_of_the_librarys() {
    let test = "adversity::unwinding::a_call_works_in_a_panic_hook_in_front_of_the_librarys";
    let Some(ended) = child::run(test, &[]) else {
        every_form(Fails::ByPanic);
        hook_that_calls(&RAN);
        panic_and_retry();
        assert_eq!(RAN.load(Relaxed), 2, "a hook in front hears of all");
        return;
    };
    let stderr = ended.passed();
    assert_eq!(stderr.iter().filter(|line| line.contains("panicked at")).count(), 1, "{stderr:?}");
}

#[test]
fn the_very_first_call_may_come_in_a_panic_hook() {
    let Some(ended) = child::run("adversity::unwinding::the_very_first_call_may_come_in_a_panic_hook", &[])
    else {
        hook_that_calls(&RAN);
        assert!(catch_unwind(|| panic!("broken")).is_err());
        assert_eq!(RAN.load(Relaxed), 1);
        every_form(Fails::ByPanic);
        return;
    };
    let stderr = ended.passed();
    assert_eq!(stderr.iter().filter(|line| line.contains("panicked at")).count(), 1, "{stderr:?}");
}
