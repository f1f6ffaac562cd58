//! Walking an error's chain of sources: types first, texts last.

use std::collections::TryReserveError;
use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;
use std::{io, iter};

use super::bytes::requested_bytes;
use super::text::{decide, message, normalized};
use super::{Class, Failure, OutOfMemory, register};
use crate::reserve;

/// Links looked at, so that a chain that leads back into itself ends.
const LONGEST_CHAIN: usize = 64;

/// What kind of failure `error` is, judged by its whole chain of sources (the first 64 links).
///
/// The types of all links are asked first, those of [`add_error`](super::add_error) before the
/// built-in ones: [`OutOfMemory`], [`TryReserveError`], [`io::Error`] of the kind
/// [`OutOfMemory`](io::ErrorKind::OutOfMemory), and cudarc's `DriverError` (feature `cuda`, by its
/// code), also inside another `io::Error`, a `Box` or an `Arc`. A text is believed only when no type speaks, and then the outermost text that any table
/// knows decides: a wrapper that merely quotes a look-alike cannot hide a typed failure below it.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::io;
/// use toma::classify::{Class, OutOfMemory, classify_error};
///
/// // The text says nothing, the type inside does.
/// let error = io::Error::other(OutOfMemory::new(None));
/// assert_eq!(classify_error(&error).class, Class::OutOfMemory);
/// ```
pub fn classify_error(error: &(dyn Error + 'static)) -> Failure {
    reserve::release();
    typed(error)
        .or_else(|| links(error).find_map(|link| decide(&text_of(link))))
        .unwrap_or_else(|| Failure::new(Class::Other, message(&text_of(error))))
}

fn typed(error: &(dyn Error + 'static)) -> Option<Failure> {
    let judges = register::judges();
    let by_user = |link| {
        let class = judges.iter().find_map(|judge| judge.class(link))?;
        Some(failure_of(link, class, requested_in(&text_of(link), class)))
    };
    links(error).find_map(by_user).or_else(|| links(error).find_map(by_type))
}

fn by_type(link: &(dyn Error + 'static)) -> Option<Failure> {
    let class = Class::OutOfMemory;
    if let Some(error) = as_type::<OutOfMemory>(link) {
        return Some(failure_of(link, class, error.requested_bytes()));
    }
    if let Some(error) = as_type::<TryReserveError>(link) {
        // Its accessors are unstable; the Debug form is the only place that names the bytes.
        return Some(failure_of(link, class, requested_in(&format!("{error:?}"), class)));
    }
    #[cfg(feature = "cuda")]
    if let Some(error) = as_type::<cudarc::driver::DriverError>(link) {
        return Some(crate::cuda::failure_of(*error));
    }
    as_type::<io::Error>(link)
        .filter(|error| error.kind() == io::ErrorKind::OutOfMemory)
        .map(|error| failure_of(link, class, requested_in(&text_of(error), class)))
}

fn failure_of(link: &(dyn Error + 'static), class: Class, requested: Option<u64>) -> Failure {
    Failure::new(class, message(&text_of(link))).requesting(requested)
}

fn requested_in(text: &str, class: Class) -> Option<u64> {
    requested_bytes(class, &normalized(text))
}

/// The error and everything below it, outermost first.
fn links<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |link| below(*link)).take(LONGEST_CHAIN)
}

/// The next link, including those that `source` skips: an `io::Error` and a shared error both
/// pass on their content's source, never their content.
fn below<'a>(link: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    if let Some(inner) = as_type::<io::Error>(link).and_then(io::Error::get_ref) {
        return Some(inner);
    }
    if let Some(shared) = link.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return Some(&**shared);
    }
    link.source()
}

/// `link` as an `E`, also inside a `Box` or an `Arc`, which are errors of a type of their own.
pub(super) fn as_type<'a, E: Error + 'static>(link: &'a (dyn Error + 'static)) -> Option<&'a E> {
    link.downcast_ref::<E>()
        .or_else(|| link.downcast_ref::<Box<E>>().map(|boxed| &**boxed))
        .or_else(|| link.downcast_ref::<Arc<E>>().map(|shared| &**shared))
}

/// The error's text; of a `Display` that fails, what it wrote until then, because `to_string`
/// would panic and this may run while another panic is being reported.
fn text_of(error: &dyn Error) -> String {
    let mut text = String::new();
    let _ = write!(text, "{error}");
    text
}
