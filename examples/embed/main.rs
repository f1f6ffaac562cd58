//! Sentence embeddings by a real model, all-MiniLM-L6-v2, for texts of any number and length in the
//! memory there is: `cargo xtask run embed -- --help`.
//!
//! Lines are sorted by length, and each class of lengths finds its own batch size: see `embedder`,
//! which is all that adapting takes.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::Arguments;

mod arguments;
mod buckets;
mod check;
mod clock;
mod compare;
mod config;
mod embedder;
mod format;
mod job;
mod lines;
mod memory;
mod model;
mod output;
mod policies;
mod say;
mod search;
mod summary;
#[cfg(test)]
mod tests;
mod tokens;
mod weights;

/// What ends the program is one line for people; nobody asks errors for their type.
type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Each error would bring two pages of C++ frames, of which nobody here reads a line.
    let _quiet = toma::torch::QuietBacktraces::new();
    match job::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", first_line(&error));
            ExitCode::FAILURE
        }
    }
}

/// libtorch explains itself in many lines, of which the first says what is wrong.
fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}
