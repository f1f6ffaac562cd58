//! Checks on a GPU or a paper card, printed as a table: `check | result | figure`.
//!
//! ```text
//! gpu            every check
//! gpu WORD       the checks with this word in their names
//! ```
//!
//! Where there is no CUDA device, checks that need one are skipped, marked as skipped, and counted. An environment
//! variable, set before libtorch starts, limits its allocator to a fiftieth of the device, so that the checks are quick
//! on a large card and leave it usable. Checks that leave a process unusable run in a process of their own.

mod card;
mod checkpoint;
mod child;
mod driver;
mod libtorch;
mod measure;
mod offload;
mod predict;
mod profile;
mod retry;
mod table;
#[path = "../../../examples/predict/transformer.rs"]
mod transformer;

use std::env;
use std::process::{Command, ExitCode};

use crate::table::Check;

/// The limit, in the variable that libtorch reads when its allocator starts.
const LIMIT: (&str, &str) = ("PYTORCH_ALLOC_CONF", "per_process_memory_fraction:0.02");

/// A variable that libtorch prefers over the other one.
const OTHER_LIMIT: &str = "PYTORCH_CUDA_ALLOC_CONF";

/// The limit as a fraction (1 in `PARTS`) of the device's memory.
const PARTS: u64 = 50;

fn main() -> ExitCode {
    if let Some(task) = child::task() {
        child::work(&task);
        return ExitCode::SUCCESS;
    }
    if env::var(LIMIT.0).as_deref() != Ok(LIMIT.1) || env::var_os(OTHER_LIMIT).is_some() {
        return limited();
    }
    let words: Vec<String> = env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let checks: Vec<Check> = [
        libtorch::CHECKS,
        predict::CHECKS,
        profile::CHECKS,
        checkpoint::CHECKS,
        offload::CHECKS,
        driver::CHECKS,
        retry::CHECKS,
        card::CHECKS,
        child::CHECKS,
    ]
    .concat();
    table::run(&checks, &words)
}

/// Runs this program once more, with a limited allocator.
fn limited() -> ExitCode {
    let program = env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(env::args_os().skip(1)).env(LIMIT.0, LIMIT.1).env_remove(OTHER_LIMIT);
    match command.status().expect("this program can be started again").code() {
        Some(0) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
