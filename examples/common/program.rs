//! A program with arguments, which reports errors in one line.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use toma::torch::QuietBacktraces;

/// Reads the arguments and works. The exit code is 2 if the arguments are wrong, and 1 if the work fails.
pub(crate) fn ends<A: Parser>(work: impl FnOnce(&A) -> Result<(), Box<dyn Error>>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            eprintln!("{}", first_line(&error));
            return ExitCode::from(2);
        }
    };
    // Otherwise each error would have two pages of C++ frames.
    let _quiet = QuietBacktraces::new();
    match work(&arguments) {
        Err(error) if !is_closed(&*error) => {
            eprintln!("error: {}", first_line(&error));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The first line of an error: libtorch writes many lines, of which the first names the problem.
pub(crate) fn first_line(error: &dyn Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// True if the reader has closed the pipe, as `head` does, which is no error.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
