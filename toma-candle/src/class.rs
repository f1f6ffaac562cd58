//! The meaning of candle's errors.

use std::fmt;

use candle_core::Error;
use toma_core::classify::{self, Failure, classify_error};

ctor::declarative::ctor! {
    /// Before `main`, so that a program need not call anything for its errors to be known.
    #[ctor(unsafe)]
    fn before_main() {
        classify::add_failure::<Error>(failure_of);
    }
}

/// The failure of the error inside: paths, contexts and backtraces around it are the program's words.
///
/// The driver's error is known by its code, where candle has the version of cudarc that toma has; otherwise by the
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

/// An error of another type, so that classifying by words does not come here again.
#[derive(Debug)]
struct Words(String);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Words {}
