//! A program with arguments, which tells what is wrong in one line.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use clap::Parser;
use toma::torch::QuietBacktraces;

/// Reads the arguments and works. It ends with 2 where they are wrong, and with 1 where the work fails.
pub(crate) fn ends<A: Parser>(work: impl FnOnce(&A) -> Result<(), Box<dyn Error>>) -> ExitCode {
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            eprintln!("{}", first_line(&error));
            return ExitCode::from(2);
        }
    };
    // Each error would bring two pages of C++ frames.
    let _quiet = QuietBacktraces::new();
    match work(&arguments) {
        Err(error) if !is_closed(&*error) => {
            eprintln!("error: {}", first_line(&error));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// libtorch explains itself in many lines, of which the first says what is wrong.
pub(crate) fn first_line(error: &dyn Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// A reader that has left, as `head` does, is no error.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
