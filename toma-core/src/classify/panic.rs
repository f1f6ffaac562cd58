//! Reading panic payloads.

use std::any::Any;
use std::collections::TryReserveError;
use std::error::Error;
use std::io;

use super::{Class, Failure, OutOfMemory, classify_error, classify_text, register};
use crate::reserve;

type ErrorIn = fn(&(dyn Any + Send)) -> Option<&(dyn Error + 'static)>;

const KNOWN: &[ErrorIn] = &[
    held::<OutOfMemory>,
    held::<TryReserveError>,
    held::<io::Error>,
    |payload| payload.downcast_ref::<Box<dyn Error + Send + Sync>>().map(|error| &**error as _),
    |payload| payload.downcast_ref::<Box<dyn Error + Send>>().map(|error| &**error as _),
    #[cfg(feature = "cuda")]
    held::<cudarc::driver::DriverError>,
    #[cfg(feature = "anyhow")]
    |payload| payload.downcast_ref::<anyhow::Error>().map(|error| &**error as _),
];

/// What kind of failure a panic with this payload is.
///
/// Understood are the texts of `panic!`, `unwrap` and `expect`, boxed errors, [`OutOfMemory`],
/// [`TryReserveError`], [`io::Error`], `anyhow::Error` (feature `anyhow`), cudarc's `DriverError` (feature `cuda`), and every type given to
/// [`add_error`](super::add_error); any other payload is [`Class::Other`]. Given a
/// `Box<dyn Any + Send>`, pass `&*payload`: a reference to the box would be the box as payload.
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

fn error_in(payload: &(dyn Any + Send)) -> Option<&(dyn Error + 'static)> {
    let registered = || register::judges().iter().find_map(|judge| judge.error_in(payload));
    KNOWN.iter().find_map(|known| known(payload)).or_else(registered)
}

fn text_in(payload: &(dyn Any + Send)) -> Option<&str> {
    payload.downcast_ref::<String>().map(String::as_str).or_else(|| payload.downcast_ref::<&str>().copied())
}

/// The payload as an error, when it is an `E`.
pub(super) fn held<E: Error + 'static>(payload: &(dyn Any + Send)) -> Option<&(dyn Error + 'static)> {
    payload.downcast_ref::<E>().map(|error| error as _)
}
