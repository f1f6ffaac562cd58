//! One link of an error's chain of sources: its type, its text, and the failure made of both.

use std::any::Any;
use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;

use super::bytes::requested_bytes;
use super::text::{message, normalized};
use super::{Class, Failure};

/// An error of any type that may be downcast.
pub(super) type Link = dyn Error + 'static;

/// Reads a panic's payload as an error, when it is one.
pub(super) type ErrorIn = fn(&(dyn Any + Send)) -> Option<&Link>;

/// Casts `link` to an `E`, also inside a `Box` or an `Arc`, which are errors with types of their own.
pub(super) fn as_type<E: Error + 'static>(link: &Link) -> Option<&E> {
    link.downcast_ref::<E>()
        .or_else(|| link.downcast_ref::<Box<E>>().map(|boxed| &**boxed))
        .or_else(|| link.downcast_ref::<Arc<E>>().map(|shared| &**shared))
}

/// Returns the payload as an error, if it is an `E`.
pub(super) fn held<E: Error + 'static>(payload: &(dyn Any + Send)) -> Option<&Link> {
    payload.downcast_ref::<E>().map(|error| error as _)
}

/// Returns a failure of `class` with the message of `link`, and the requested bytes in its text.
pub(super) fn failure_at(link: &Link, class: Class) -> Failure {
    let text = text_of(link);
    Failure::new(class, message(&text)).requesting(requested_in(&text, class))
}

/// Returns the requested bytes in a text of `class`.
pub(super) fn requested_in(text: &str, class: Class) -> Option<u64> {
    requested_bytes(class, &normalized(text))
}

/// Returns the error's text. If a `Display` fails, this is the part written until then, because `to_string` would
/// panic, and this may run while another panic is being reported.
pub(super) fn text_of(error: &dyn Error) -> String {
    let mut text = String::new();
    let _ = write!(text, "{error}");
    text
}
