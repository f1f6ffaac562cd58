//! Errors of bodies, made of what other ranks have done.

use std::any::Any;
use std::error::Error as StdError;
use std::io;
use std::sync::{PoisonError, RwLock};

use super::Error;

/// Functions that make an error of some type, each under its own type.
static ADDED: RwLock<Vec<Box<dyn Any + Send + Sync>>> = RwLock::new(Vec::new());

/// Makes an error of a body.
type Make<E> = fn(&Error) -> E;

/// Lets bodies that fail with `E` return what ended a call on another rank.
///
/// Boxed errors, `std::io::Error`, `anyhow::Error` and `TchError` are known. Of a type that is not the call panics, and
/// so do calls with the option `classify`, which may fail with anything.
/// Adding a type again replaces its function.
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

/// The error as one of a body, if its type is known.
pub(crate) fn converted<E: 'static>(error: &Error) -> Option<E> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let make = added.iter().find_map(|known| known.downcast_ref::<Make<E>>().copied());
    // The function is foreign, and may add another.
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

/// Where the body's outcome has no place for it.
#[cold]
pub(crate) fn raise(error: &Error) -> ! {
    panic!("{error}")
}
