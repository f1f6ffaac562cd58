//! The cost of not knowing the best size: the time of whole runs over that of an oracle, which knows the best fixed
//! size from the start.
//!
//! ```text
//! regret            the whole grid, and limits that move in the middle of a run, for every policy
//! regret POLICY     for the policies with that in their name
//! regret --test     two worlds of each table, which are too few for a bar
//! ```
//!
//! The runs go through the real engine, on the fake device and in simulated time: figures are the same
//! on every machine. It fails when `Adaptive` misses a bar.

mod cache;
mod form;
mod moving;
mod policies;
mod run;
mod source;
mod subject;
mod table;
mod trouble;
mod world;

use std::process::ExitCode;

use policies::{Arguments, DOUBTS, Entry, POLICIES};
use source::Source;
use subject::subjects;
use table::{Bars, Row, Runs};
use world::{grid, played};

fn main() -> ExitCode {
    let Arguments { policies, is_test } = Arguments::read(POLICIES.iter().chain(DOUBTS));
    let mut missed = whole_runs(&policies, is_test);
    missed.extend(moving::report(&policies, is_test));
    trouble::report(&policies, is_test);
    if is_test {
        return ExitCode::SUCCESS;
    }
    for bar in &missed {
        println!("bar missed: {bar}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the table, and returns the bars that are not met.
fn whole_runs(policies: &[&Entry], is_test: bool) -> Vec<String> {
    let worlds = played(grid(), is_test);
    println!("{} worlds, each run twice: cold, and warm with what the first run has taught\n", worlds.len());
    println!("{}", table::HEADER);
    let mut missed = Vec::new();
    for (policy, form, source) in
        subjects(policies, &[Source::Unknown, Source::Reads, Source::Counts, Source::Predicted])
    {
        let runs: Vec<Runs> = worlds.iter().map(|world| run::runs(world, policy, source, form)).collect();
        let row = Row::of((policy.name, form), source, &runs);
        println!("{row}");
        let is_known = matches!(source, Source::Counts | Source::Predicted);
        missed.extend(row.misses(policy, if is_known { Bars::NARROW } else { Bars::WIDE }));
    }
    println!();
    missed
}
