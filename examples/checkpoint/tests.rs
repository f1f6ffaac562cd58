//! Tests the output of the example.

use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::{CommandFactory as _, Parser as _};
use toma::torch::cpu;

use crate::program::first_line;
use crate::{Arguments, run};

/// Lets other tests that make tensors wait: a budget belongs to the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    cpu::count();
    guard
}

/// The output, or the error in one line.
fn printed(line: &str) -> Result<String, String> {
    let arguments = Arguments::try_parse_from(format!("checkpoint {line}").split_whitespace());
    let mut to = Vec::new();
    run(&arguments.map_err(|error| first_line(&error))?, &mut to).map_err(|error| first_line(&error))?;
    String::from_utf8(to).map_err(|error| error.to_string())
}

/// The row of a table, in words.
fn row<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let row = text.lines().find_map(|line| line.strip_prefix(name));
    row.unwrap_or_else(|| panic!("{name:?} is missing:\n{text}")).split_whitespace().collect()
}

#[test]
fn the_description_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn checkpoints_keep_the_batch_that_halving_splits() {
    let _alone = alone();
    let text = printed("--net digits --batch 150 --budget 10MiB --steps 3").unwrap();
    let [plain, halving, checkpoints] = ["no budget", "halving", "checkpoints"].map(|name| row(&text, name));
    assert_eq!((plain[0], plain[3]), ("150", "0"), "{text}");
    assert!(halving[0].parse::<u32>().unwrap() < 150 && halving[3] != "0", "{text}");
    assert_eq!((checkpoints[0], checkpoints[3]), ("150", "0"), "{text}");
    assert_eq!(checkpoints[5..], plain[5..], "the same losses and accuracy:\n{text}");
    assert!(text.contains("planned: auto: "), "{text}");
}

#[test]
fn a_solver_that_is_none_is_named_with_those_that_are() {
    let error = printed("--solver best").unwrap_err();
    assert!(error.contains("`best` is no solver: expected keep-all, sqrt-n, rotor or auto"), "{error}");
}
