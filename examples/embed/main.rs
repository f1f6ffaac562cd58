//! Sentence embeddings by a real model, all-MiniLM-L6-v2, for texts of any number and length in the available memory:
//! `cargo xtask run embed -- --help`.
//!
//! Lines are sorted by length, and each class of lengths finds its own batch size: see `embedder`, which has all the
//! code for this.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use crate::program::first_line;

mod arguments;
mod check;
mod compare;
mod embedder;
mod job;
mod memory;
mod model;
mod output;
#[path = "../common/place.rs"]
mod place;
#[path = "../common/program.rs"]
mod program;
mod search;
mod summary;
#[cfg(test)]
mod tests;
mod texts;
mod weights;

/// The program ends with one line for people, so no caller needs the type of an error.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    program::ends(job::run)
}

/// Prints a result.
///
/// A reader that has closed the pipe, as `head` does, is no error and ends no work: there may be a file to write and a
/// check to fail.
fn print(line: impl Display) -> Result<()> {
    let written = writeln!(io::stdout(), "{line}");
    let failed = written.err().filter(|error| error.kind() != ErrorKind::BrokenPipe);
    failed.map_or(Ok(()), |error| Err(format!("standard output: {error}").into()))
}
