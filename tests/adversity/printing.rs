//! Which panics are printed: those that are passed on, exactly once, and no others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use toma::{NoCache, execute};

use crate::child;

const OUT_OF_MEMORY: &str = "CUDA out of memory. Tried to allocate 2.00 GiB";

/// The messages that a process of its own prints while it runs `work`.
fn printed(test: &str, work: impl FnOnce()) -> Option<Vec<String>> {
    let Some(ended) = child::run(test, &[]) else {
        work();
        return None;
    };
    let stderr = ended.passed();
    Some(
        stderr
            .into_iter()
            .filter(|line| !line.is_empty() && !line.contains("panicked at") && !line.starts_with("note:"))
            .collect(),
    )
}

fn runs_out() {
    panic!("{OUT_OF_MEMORY}");
}

fn breaks() {
    panic!("broken");
}

/// Runs a body that panics, and takes the panic.
fn panics(call: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(call)).unwrap_err();
}

#[test]
fn what_is_tried_again_is_not_printed() {
    let printed = printed("printing::what_is_tried_again_is_not_printed", || {
        execute::with::<NoCache>().range(0..8, 8, |start, end| assert!(end - start < 3, "{OUT_OF_MEMORY}"));
    });
    assert!(printed.is_none_or(|printed| printed.is_empty()));
}

#[test]
fn what_is_passed_on_is_printed_once() {
    let printed = printed("printing::what_is_passed_on_is_printed_once", || {
        panics(|| execute::with::<NoCache>().range(0..8, 8, |_, _| runs_out()));
        panics(|| execute::with::<NoCache>().range(0..8, 8, |_, _| breaks()));
    });
    assert!(printed.is_none_or(|printed| printed == [OUT_OF_MEMORY, "broken"]));
}

#[test]
fn what_the_deadline_cuts_off_is_printed_once() {
    let printed = printed("printing::what_the_deadline_cuts_off_is_printed_once", || {
        panics(|| {
            let with = execute::with::<NoCache>().deadline(Duration::from_millis(5));
            with.range(0..8, 8, |_, _| {
                std::thread::sleep(Duration::from_millis(10));
                runs_out();
            });
        });
    });
    assert!(printed.is_none_or(|printed| printed == [OUT_OF_MEMORY]));
}

#[test]
fn what_two_levels_pass_on_is_printed_once() {
    let printed = printed("printing::what_two_levels_pass_on_is_printed_once", || {
        panics(|| {
            execute::with::<NoCache>().batch(4, |_| {
                execute::with::<NoCache>().batch(4, |_| -> usize { panic!("{OUT_OF_MEMORY}") })
            });
        });
    });
    assert!(printed.is_none_or(|printed| printed == [OUT_OF_MEMORY]));
}

#[test]
fn a_panic_after_one_that_the_body_caught_is_printed_once() {
    let printed = printed("printing::a_panic_after_one_that_the_body_caught_is_printed_once", || {
        panics(|| {
            execute::with::<NoCache>().range(0..8, 8, |_, _| {
                panics(runs_out);
                breaks();
            });
        });
    });
    assert!(printed.is_none_or(|printed| printed == ["broken"]));
}

/// Runs a loop of its own when it is dropped, with failures that are answered there.
struct Loops;

impl Drop for Loops {
    fn drop(&mut self) {
        execute::with::<NoCache>().range(0..8, 8, |start, end| assert!(end - start < 3, "{OUT_OF_MEMORY}"));
    }
}

#[test]
fn a_loop_in_a_destructor_does_not_take_the_message() {
    let printed = printed("printing::a_loop_in_a_destructor_does_not_take_the_message", || {
        panics(|| {
            let with = execute::with::<NoCache>().deadline(Duration::from_millis(5));
            with.range(0..8, 8, |_, _| {
                let _loops = Loops;
                std::thread::sleep(Duration::from_millis(10));
                runs_out();
            });
        });
    });
    assert!(printed.is_none_or(|printed| printed == [OUT_OF_MEMORY]));
}

#[test]
fn what_the_outer_level_cuts_off_is_printed_once() {
    let printed = printed("printing::what_the_outer_level_cuts_off_is_printed_once", || {
        panics(|| {
            let with = execute::with::<NoCache>().deadline(Duration::from_millis(5));
            with.batch(4, |_| {
                execute::with::<NoCache>().batch(4, |_| {
                    std::thread::sleep(Duration::from_millis(3));
                    runs_out();
                });
            });
        });
    });
    assert!(printed.is_none_or(|printed| printed == [OUT_OF_MEMORY]));
}

#[test]
fn a_panic_of_an_undo_is_printed_once() {
    let printed = printed("printing::a_panic_of_an_undo_is_printed_once", || {
        panics(|| {
            let with = execute::with::<NoCache>().before_retry(|_| panic!("cannot undo: out of memory"));
            with.range(0..8, 8, |_, _| runs_out());
        });
    });
    assert!(printed.is_none_or(|printed| printed == ["cannot undo: out of memory"]));
}

#[test]
fn panics_elsewhere_are_printed_meanwhile() {
    let printed = printed("printing::panics_elsewhere_are_printed_meanwhile", || {
        execute::with::<NoCache>().batch(8, |size| {
            if size == 8 {
                // Another thread has no loop around it that would answer.
                std::thread::spawn(|| panic!("{OUT_OF_MEMORY}")).join().unwrap_err();
            }
        });
    });
    assert!(printed.is_none_or(|printed| printed == [OUT_OF_MEMORY]));
}
