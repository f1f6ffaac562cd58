//! The workloads of `benches/peers`, which `compare.py` there also runs through libraries for Python: the cost of a
//! call and of a chunk when nothing fails, and whole runs over real tensors in which only a limited number of rows
//! fits.
//!
//! ```text
//! peers            every case, once
//! peers --test     the same with little to do
//! peers loop       answers questions: the hand-written loop
//! peers toma       the attributes; memory is that of the host
//! peers counted    the same where libtorch's own bytes are counted, and their budget is real
//! ```
//!
//! In the last three modes the first line printed names the peer and its cases. Then each line read is the number of a
//! case to measure, and each line printed is its result.

mod cases;
mod forms;
mod layer;
mod overhead;
mod world;

use std::env;
use std::error::Error;
use std::io::{self, BufRead as _, Write as _};

use clap::ValueEnum as _;
use serde_json::json;

use crate::cases::{Bench, Role};

/// An error of the machine, or a wrong result.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    tch::set_num_threads(1);
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some(role) = arguments.iter().find_map(|argument| Role::from_str(argument, false).ok()) {
        return answer(role);
    }
    let is_test = arguments.iter().any(|argument| argument == "--test");
    Role::value_variants().iter().try_for_each(|role| print_all(*role, is_test))
}

/// Answers questions, with the same data until the last one.
fn answer(role: Role) -> Result<()> {
    let bench = Bench::new(role, false)?;
    let (cases, mut answers) = (bench.cases(), io::stdout().lock());
    let names: Vec<_> = cases.iter().map(|case| bench.name(case)).collect();
    let (peer, version) = (role.peer(), role.version());
    let hello = json!({ "language": "Rust", "peer": peer, "version": version, "cases": names });
    writeln!(answers, "{hello}")?;
    for question in io::stdin().lock().lines() {
        let case = cases.get(question?.parse::<usize>()?).ok_or("no such case")?;
        writeln!(answers, "{}", json!(bench.measure(case)?))?;
    }
    Ok(())
}

fn print_all(role: Role, is_test: bool) -> Result<()> {
    let bench = Bench::new(role, is_test)?;
    for case in bench.cases() {
        println!("{}: {} {}", role.peer(), bench.name(&case), json!(bench.measure(&case)?));
    }
    Ok(())
}
