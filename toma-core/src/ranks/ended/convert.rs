//! Conversion of ranks' errors to the error types of bodies.

use std::any::Any;
use std::error::Error as StdError;
use std::io;
use std::sync::{PoisonError, RwLock};

use super::Error;

/// Functions that make an error of some type, at most one for each type.
static ADDED: RwLock<Vec<Box<dyn Any + Send + Sync>>> = RwLock::new(Vec::new());

/// Makes an error of a body.
type Make<E> = fn(&Error) -> E;

/// Registers a conversion, so that bodies that fail with `E` can return the error that ended a call on another rank.
///
/// Boxed errors, `std::io::Error`, `anyhow::Error` and `TchError` are known. For other types the call panics, as do
/// calls with the option `classify`, because they may fail with anything. Adding a type again replaces its function.
///
/// ```
/// # extern crate toma_core as toma;
/// #[derive(Debug)]
/// struct MyError(String);
///
/// toma::ranks::add_error(|error| MyError(error.to_string()));
/// ```
pub fn add_error<E: 'static>(make: fn(&Error) -> E) {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    added.retain(|known| !known.is::<Make<E>>());
    added.push(Box::new(make as Make<E>));
}

/// Converts the error to the error type of a body, if that type is known.
pub(crate) fn converted<E: 'static>(error: &Error) -> Option<E> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let make = added.iter().find_map(|known| known.downcast_ref::<Make<E>>().copied());
    // The lock is released because the user's function may call `add_error`.
    drop(added);
    make.or_else(built_in).map(|make| make(error))
}

fn built_in<E: 'static>() -> Option<Make<E>> {
    let same: Make<Error> = Error::clone;
    let io: Make<io::Error> = |error| io::Error::other(error.clone());
    let boxed: Make<Box<dyn StdError>> = |error| Box::new(error.clone());
    let sent: Make<Box<dyn StdError + Send>> = |error| Box::new(error.clone());
    let shared: Make<Box<dyn StdError + Send + Sync>> = |error| Box::new(error.clone());
    #[cfg(feature = "anyhow")]
    let anyhow: Make<anyhow::Error> = |error| anyhow::Error::new(error.clone());
    let known: &[&dyn Any] = &[
        &same,
        &io,
        &boxed,
        &sent,
        &shared,
        #[cfg(feature = "anyhow")]
        &anyhow,
    ];
    known.iter().find_map(|make| make.downcast_ref().copied())
}

/// Panics with the error, if the outcome of the body cannot hold it.
#[cold]
pub(crate) fn raise(error: &Error) -> ! {
    panic!("{error}")
}
