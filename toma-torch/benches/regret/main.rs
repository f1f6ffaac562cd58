//! The cost of not knowing the best size, on tensors: the time of whole runs over that of an oracle, the best fixed
//! size as measured in the same run.
//!
//! ```text
//! regret-torch            every world, for every policy
//! regret-torch POLICY     for the policies with that in their name
//! regret-torch --test     one small world, once
//! ```
//!
//! The benchmark `regret` of the root package does this in simulated time and with more worlds. Here
//! operators of libtorch run in real time, on one thread, under a budget for CPU tensors.

#[path = "../../../benches/regret/cache.rs"]
mod cache;
#[path = "../../../benches/regret/form.rs"]
#[allow(dead_code, reason = "only ranges are compared here")]
mod form;
#[path = "../../../benches/regret/policies.rs"]
#[allow(dead_code, reason = "not every policy of the simulation is compared here")]
mod policies;
mod run;
#[path = "../../../benches/regret/source.rs"]
#[allow(dead_code, reason = "not everything that a source may show is compared here")]
mod source;
#[path = "../../../benches/regret/table.rs"]
#[allow(dead_code, reason = "bars are narrower in simulated time")]
mod table;
mod world;

use std::process::ExitCode;

use form::Form;
use policies::{Arguments, Entry, POLICIES};
use run::Bench;
use source::Source;
use table::{Bars, Row, Runs};
use toma_torch::cpu;
use world::{World, grid, small};

/// The number of rounds that measure everything in a world.
const ROUNDS: usize = 3;

const SOURCES: [Source; 3] = [Source::Unknown, Source::Counts, Source::Predicted];

fn main() -> ExitCode {
    let Arguments { policies, is_test } = Arguments::read(POLICIES);
    tch::set_num_threads(1);
    cpu::count();
    let (worlds, rounds) = if is_test { (vec![small()], 1) } else { (grid(), ROUNDS) };
    println!("{} worlds, each run cold and then warm {rounds} times", worlds.len());
    let subjects: Vec<(&Entry, Source)> = policies
        .iter()
        .flat_map(|policy| SOURCES.map(|source| (*policy, source)))
        // The other policies do not read counted bytes.
        .filter(|(policy, source)| policy.has_bars || *source != Source::Counts)
        .collect();
    let benches: Vec<Bench> = worlds.iter().map(|world| measure(world, &subjects, rounds)).collect();
    println!("\n{}", table::HEADER);
    let mut missed = Vec::new();
    for (number, &(policy, source)) in subjects.iter().enumerate() {
        let runs: Vec<Runs> = benches.iter().map(|bench| bench.runs[number]).collect();
        let row = Row::of((policy.name, Form::Range), source, &runs);
        println!("{row}");
        missed.extend(row.misses(policy, Bars::WIDE));
    }
    // One small world, run once, proves nothing about time.
    if is_test || missed.is_empty() {
        return ExitCode::SUCCESS;
    }
    for bar in &missed {
        println!("bar missed: {bar}");
    }
    ExitCode::FAILURE
}

fn measure(world: &World, subjects: &[(&Entry, Source)], rounds: usize) -> Bench {
    let bench = Bench::of(world, subjects, rounds);
    println!("{world}: the oracle takes {} items and {:.0} ms", bench.best_size, bench.best * 1000.0);
    for ((policy, source), runs) in subjects.iter().zip(&bench.runs) {
        let Runs { cold, warm, out_of_memory, kept } = runs;
        let name = format!("{} {}", policy.name, source.word());
        println!("  {name:<16} {cold:.3} {warm:.3}, {out_of_memory} out of memory, {kept:.3} kept");
    }
    bench
}
