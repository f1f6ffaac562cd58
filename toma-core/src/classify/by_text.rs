//! Classification of a failure by the text of its error, if its type does not decide.

use super::bytes::requested_bytes;
use super::text::{message, message_part, normalized};
use super::{Class, Failure, backend, register};

/// Classifies an error by its text, with the tables of all backends.
///
/// The last resort, for errors whose type does not decide. Case does not matter; only the message is read, up to
/// libtorch's C++ backtrace; and a text inside the Debug form of an error (as in the panics of `unwrap`) counts
/// like the text itself. A text that is in no table is [`Class::Other`].
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::{Class, classify_text};
///
/// let failure = classify_text("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has ...");
/// assert_eq!(failure.class, Class::OutOfMemory);
/// assert_eq!(failure.requested_bytes, Some(2 << 30));
/// ```
pub fn classify_text(text: &str) -> Failure {
    decide(text).unwrap_or_else(|| Failure::new(Class::Other, message(text)))
}

/// Returns the failure of a text that any table has; a known look-alike is [`Class::Other`].
pub(super) fn decide(text: &str) -> Option<Failure> {
    let normal = normalized(message_part(text));
    let class = register::class_of(&normal).or_else(|| backend::class_of(&normal))?;
    Some(Failure::new(class, message(text)).requesting(requested_bytes(class, &normal)))
}
