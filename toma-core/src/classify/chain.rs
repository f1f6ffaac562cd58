//! Walking an error's chain of sources: types first, texts last.

use std::collections::TryReserveError;
use std::error::Error;
use std::sync::Arc;
use std::{io, iter};

use super::by_text::decide;
use super::link::{Link, as_type, failure_at, requested_in, text_of};
use super::text::message;
use super::{Class, Failure, OutOfMemory, register};
use crate::reserve;

/// Number of links that are checked, so that a chain that leads back into itself ends.
const LONGEST_CHAIN: usize = 64;

/// Classifies `error` by its whole chain of sources (the first 64 links).
///
/// The types of all links come first, those of [`add_error`](super::add_error) and of the backends in use before
/// the built-in ones: [`OutOfMemory`], [`TryReserveError`], and [`io::Error`] of the kind
/// [`OutOfMemory`](io::ErrorKind::OutOfMemory). Each is also found inside another `io::Error`, a `Box` or an `Arc`.
/// Texts count only if no type decides; then the outermost text that any table has decides. So a wrapper that
/// merely quotes a look-alike cannot hide a typed failure below it.
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

fn typed(error: &Link) -> Option<Failure> {
    let registered = register::types();
    let by_registered = |link| registered.iter().find_map(|known| (known.failure)(link));
    links(error).find_map(by_registered).or_else(|| links(error).find_map(by_built_in))
}

fn by_built_in(link: &Link) -> Option<Failure> {
    let failure = || failure_at(link, Class::OutOfMemory);
    if let Some(error) = as_type::<OutOfMemory>(link) {
        return Some(failure().requesting(error.requested_bytes()));
    }
    if let Some(error) = as_type::<TryReserveError>(link) {
        // Its accessors are unstable; only the Debug form has the bytes.
        return Some(failure().requesting(requested_in(&format!("{error:?}"), Class::OutOfMemory)));
    }
    as_type::<io::Error>(link).filter(|error| error.kind() == io::ErrorKind::OutOfMemory).map(|_| failure())
}

/// Returns the error and everything below it, outermost first.
fn links(error: &Link) -> impl Iterator<Item = &Link> {
    iter::successors(Some(error), |link| below(*link)).take(LONGEST_CHAIN)
}

/// Returns the next link, including those that `source` skips: an `io::Error` and a shared error both return their
/// content's source, never their content.
fn below(link: &Link) -> Option<&Link> {
    if let Some(inner) = as_type::<io::Error>(link).and_then(io::Error::get_ref) {
        return Some(inner);
    }
    if let Some(shared) = link.downcast_ref::<Arc<dyn Error + Send + Sync>>() {
        return Some(&**shared);
    }
    link.source()
}
