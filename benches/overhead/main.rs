//! The cost of a call when nothing fails, against the hand-written loop in the same run.
//!
//! ```text
//! overhead                  every measurement, as ratios and differences to its baseline
//! overhead list             the cases that can be counted
//! overhead visits           first visits of short threads alone
//! overhead count CASE N     runs the case N times and nothing else, for an instruction counter
//! ```
//!
//! Times are medians of alternating pairs, so that a busy machine disturbs both sides alike.
//!
//! # Why
//!
//! A plain program measures ratios to a hand-written loop in the same run, in alternation. The usual
//! harnesses do not.

mod calls;
mod marks;
mod measure;
mod reference;
mod scaling;
mod visits;
mod walk;

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    // A cache without any learned size is not even asked, so learn one: caches in use are measured.
    calls::learn_something();
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => cases().for_each(|case| println!("{}", case.name)),
        ["visits"] => visits::report(),
        ["count", name, times] => return count(name, times),
        _ if arguments.iter().any(|argument| argument == "--test") => test(),
        _ => everything(),
    }
    ExitCode::SUCCESS
}

fn cases() -> impl Iterator<Item = &'static calls::Case> {
    calls::CASES.iter().chain(marks::CASES)
}

fn count(name: &str, times: &str) -> ExitCode {
    let case = cases().find(|case| case.name == name);
    let (Some(case), Ok(times)) = (case, times.parse()) else {
        eprintln!("overhead count {name} {times}: no such case, or not a number");
        return ExitCode::FAILURE;
    };
    (case.run)(times);
    ExitCode::SUCCESS
}

/// Runs each case once, so that tests notice a bench that no longer runs; the reference workload checks its data.
fn test() {
    for case in cases() {
        (case.run)(2);
        println!("{}: ok", case.name);
    }
    reference::report(1);
    scaling::report(&scaling::ONCE);
    visits::rounds(1);
    println!("first visits: ok");
}

fn everything() {
    calls::report();
    marks::report();
    walk::report();
    reference::report(301);
    scaling::report(&scaling::FULL);
    visits::report();
}
