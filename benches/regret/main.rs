//! What it costs not to know the best size: the time of whole runs over that of an oracle, which
//! knows the best fixed size from the start.
//!
//! ```text
//! regret            the whole grid, for every policy, and limits that move in the middle of a run
//! regret --test     a small part of it, and whether the bars hold
//! ```
//!
//! The runs go through the real engine, on the fake device and in simulated time: figures are the same
//! on every machine.

mod moving;
mod policies;
mod run;
mod table;
mod world;

use std::env;
use std::process::ExitCode;

use policies::POLICIES;
use table::Row;
use world::{Source, World, grid};

fn main() -> ExitCode {
    let test = env::args().any(|argument| argument == "--test");
    let worlds: Vec<World> = if test { grid().into_iter().step_by(7).collect() } else { grid() };
    println!(
        "{} worlds, each run twice: cold, and warm with what the first run left in the size cache\n",
        worlds.len()
    );
    let mut fails = Vec::new();
    println!("{}", table::HEADER);
    let only = env::args().nth(1).filter(|name| !name.starts_with("--"));
    for policy in POLICIES.iter().filter(|policy| only.as_ref().is_none_or(|only| policy.name.contains(only)))
    {
        for source in [Source::Unknown, Source::Counts] {
            let row = Row::of(
                policy.name,
                source,
                &worlds.iter().map(|world| run::runs(world, policy, source)).collect::<Vec<_>>(),
            );
            println!("{row}");
            fails.extend(row.misses(policy));
        }
    }
    println!();
    fails.extend(moving::report(only.as_deref()));
    fails.iter().for_each(|fail| println!("bar missed: {fail}"));
    if fails.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
