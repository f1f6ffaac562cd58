//! The cost of not knowing the best size: the time of whole runs over that of an oracle, which knows the best fixed
//! size from the start.
//!
//! ```text
//! regret            the whole grid, and limits that move in the middle of a run, for every policy
//! regret POLICY     for the policies with that in their name
//! regret --test     a part of the grid
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
use world::{World, grid};

fn main() -> ExitCode {
    let Arguments { policies, is_test } = Arguments::read(POLICIES.iter().chain(DOUBTS));
    // Fewer worlds of moving limits would miss bars by chance.
    let [whole, moving] = if is_test { [29, 21] } else { [1, 1] };
    let mut missed = whole_runs(&policies, whole);
    missed.extend(moving::report(&policies, moving));
    trouble::report(&policies, if is_test { 9 } else { 1 });
    for bar in &missed {
        println!("bar missed: {bar}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the table of every so many worlds, and returns the bars that are not met.
fn whole_runs(policies: &[&Entry], every: usize) -> Vec<String> {
    let worlds: Vec<World> = grid().into_iter().step_by(every).collect();
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
