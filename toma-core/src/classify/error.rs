//! The trait that classifies every error without opt-in.
//!
//! # Why
//!
//! Errors must be `'static`, because classification downcasts them. Other error types need the option `classify`.

use std::error::Error;

use super::{Failure, classify_error};
use crate::ranks::ended;

/// An error that can be sorted into a [`Class`](super::Class): every standard and every boxed error.
///
/// Nothing has to be implemented by hand, and `Marker` never has to be written: it is inferred, and separates the
/// implementation for all standard errors from the one for boxed errors (which are not standard errors).
///
/// ```
/// # extern crate toma_core as toma;
/// use std::io;
/// use toma::classify::{Class, Classify};
///
/// fn class<M>(error: &impl Classify<M>) -> Class {
///     error.classify().class
/// }
///
/// assert_eq!(class(&io::Error::from(io::ErrorKind::OutOfMemory)), Class::OutOfMemory);
/// let boxed: Box<dyn std::error::Error> = "CUDA error: out of memory".into();
/// assert_eq!(class(&boxed), Class::OutOfMemory);
/// ```
///
/// A type that is not an error does not compile:
///
/// ```compile_fail
/// # extern crate toma_core as toma;
/// use toma::classify::{Class, Classify};
///
/// fn class<M>(error: &impl Classify<M>) -> Class {
///     error.classify().class
/// }
/// class(&String::from("CUDA error: out of memory"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be classified as out of memory or not",
    label = "this error type is not known to toma",
    note = "implement `std::error::Error` for `{Self}` (which must be `'static`), or give the option `classify = path`"
)]
pub trait Classify<Marker> {
    /// Classifies this error by its whole chain of sources.
    fn classify(&self) -> Failure;

    /// Converts the failure of another rank that ended the call to an error of this type.
    #[doc(hidden)]
    fn of_ranks(error: &ended::Error) -> Option<Self>
    where
        Self: Sized;
}

/// The types that separate the implementations of [`Classify`]; not for use by hand.
pub mod marker {
    /// Marks standard errors.
    #[derive(Debug)]
    pub enum Standard {}

    /// Marks boxed errors.
    #[derive(Debug)]
    pub enum Boxed {}
}

impl<E: Error + 'static> Classify<marker::Standard> for E {
    fn classify(&self) -> Failure {
        classify_error(self)
    }

    fn of_ranks(error: &ended::Error) -> Option<Self> {
        ended::converted(error)
    }
}

// One blanket implementation instead of one per box: with a second candidate for every type, the compiler reports
// the trait itself as missing, with the message above, instead of `Error`.
impl<E: ErrorBox + 'static> Classify<marker::Boxed> for E {
    fn classify(&self) -> Failure {
        classify_error(self.inside())
    }

    fn of_ranks(error: &ended::Error) -> Option<Self> {
        ended::converted(error)
    }
}

/// A box around an error of any type, which cannot be a standard error itself.
pub trait ErrorBox {
    /// The error in the box.
    fn inside(&self) -> &(dyn Error + 'static);
}

macro_rules! boxes {
    ($($type:ty),+) => {$(
        impl ErrorBox for $type {
            fn inside(&self) -> &(dyn Error + 'static) {
                &**self
            }
        }
    )+};
}

boxes!(Box<dyn Error>, Box<dyn Error + Send>, Box<dyn Error + Send + Sync>);
#[cfg(feature = "anyhow")]
boxes!(anyhow::Error);
