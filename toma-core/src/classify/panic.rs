//! Classification of panic payloads.

use std::any::Any;
use std::collections::TryReserveError;
use std::error::Error;
use std::io;

use super::link::{ErrorIn, Link, held};
use super::{Class, Failure, OutOfMemory, classify_error, classify_text, register};
use crate::reserve;

const BUILT_IN: &[ErrorIn] = &[
    held::<OutOfMemory>,
    held::<TryReserveError>,
    held::<io::Error>,
    |payload| payload.downcast_ref::<Box<dyn Error + Send + Sync>>().map(|error| &**error as _),
    |payload| payload.downcast_ref::<Box<dyn Error + Send>>().map(|error| &**error as _),
    #[cfg(feature = "anyhow")]
    |payload| payload.downcast_ref::<anyhow::Error>().map(|error| &**error as _),
];

/// Classifies a panic by its payload.
///
/// Supported are the texts of `panic!`, `unwrap` and `expect`, boxed errors, [`OutOfMemory`], [`TryReserveError`],
/// [`io::Error`], `anyhow::Error` (feature `anyhow`), errors of the backends in use, and every type given to
/// [`add_error`](super::add_error); any other payload is [`Class::Other`]. Given a `Box<dyn Any + Send>`, pass
/// `&*payload`: a reference to the box would make the box the payload.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::{Class, classify_panic};
///
/// let payload = std::panic::catch_unwind(|| {
///     Vec::<u8>::new().try_reserve_exact(isize::MAX as usize).unwrap();
/// })
/// .unwrap_err();
/// assert_eq!(classify_panic(&*payload).class, Class::OutOfMemory);
/// ```
pub fn classify_panic(payload: &(dyn Any + Send)) -> Failure {
    reserve::release();
    if let Some(error) = error_in(payload) {
        return classify_error(error);
    }
    match text_in(payload) {
        Some(text) => classify_text(text),
        None => Failure::new(Class::Other, "panic payload of an unknown type"),
    }
}

fn error_in(payload: &(dyn Any + Send)) -> Option<&Link> {
    let registered = || register::types().iter().find_map(|known| (known.error_in)(payload));
    BUILT_IN.iter().find_map(|known| known(payload)).or_else(registered)
}

fn text_in(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied())
}
