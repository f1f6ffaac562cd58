//! Tests which report `report::last` returns.

use std::panic::catch_unwind;
use std::thread;

use toma::{NoCache, execute, report};

fn call(name: &'static str, items: usize) {
    execute::with::<NoCache>().name(name).range(0..items, 2, |_, _| ());
}

/// Returns name, items and attempts of the last report.
fn last() -> (String, Option<usize>, usize) {
    let report = report::last().expect("a call has ended on this thread");
    (report.name.to_string(), report.length, report.attempts)
}

fn report_of(name: &str, items: usize) -> (String, Option<usize>, usize) {
    (name.to_owned(), Some(items), items.div_ceil(2))
}

#[test]
fn a_thread_that_called_nothing_has_none() {
    call("here", 2);
    assert!(thread::spawn(|| report::last().is_none()).join().unwrap());
}

#[test]
fn each_thread_has_its_own() {
    call("here", 2);
    let there = || {
        call("there", 8);
        last()
    };
    assert_eq!(thread::spawn(there).join().unwrap(), report_of("there", 8));
    assert_eq!(last(), report_of("here", 2));
}

#[test]
fn a_nested_call_ends_before_the_one_around_it() {
    call("before", 4);
    let mut seen = Vec::new();
    execute::with::<NoCache>().name("outer").range(0..6, 2, |start, _end| {
        seen.push(last());
        call("inner", 10 + start);
        seen.push(last());
    });
    let inner = |items| report_of("inner", items);
    let expected = [report_of("before", 4), inner(10), inner(10), inner(12), inner(12), inner(14)];
    assert_eq!(seen, expected);
    assert_eq!(last(), report_of("outer", 6));
}

#[test]
fn an_option_that_is_refused_leaves_the_report_before() {
    call("before", 2);
    catch_unwind(|| execute::with::<NoCache>().min(4).range(0..6, 2, |_, _| ())).unwrap_err();
    assert_eq!(last(), report_of("before", 2));
}
