//! The meaning of candle's errors.

use std::fmt;

use candle_core::Error;
use toma_core::classify::{self, Failure, classify_error};

ctor::declarative::ctor! {
    /// Runs before `main`, so that a program need not register candle's errors.
    #[ctor(unsafe)]
    fn before_main() {
        classify::add_failure::<Error>(failure_of);
    }
}

/// Returns the failure of the inner error, because paths, contexts and backtraces around it are the program's text.
///
/// The driver's error is classified by its code if candle uses the same version of cudarc as toma, otherwise by the
/// name of its code in the text.
fn failure_of(error: &Error) -> Failure {
    match error {
        Error::Cuda(inner) => classify_error(&**inner),
        Error::Context { inner, .. } | Error::WithPath { inner, .. } | Error::WithBacktrace { inner, .. } => {
            failure_of(inner)
        }
        Error::WrappedContext { wrapped, .. } => classify_error(&**wrapped),
        Error::Io(inner) => classify_error(inner),
        other => classify_error(&Words(other.to_string())),
    }
}

/// An error of another type, so that classifying by text does not end up here again.
#[derive(Debug)]
struct Words(String);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Words {}
