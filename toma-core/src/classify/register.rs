//! What users and backends add: types and texts, for the whole process.
//!
//! Both lists are read only after a failure. A lock that a panicking thread left poisoned is used
//! all the same: each change is a single step, so the list is whole whenever it can be seen.

use std::any::TypeId;
use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};

use super::link::{ErrorIn, Link, as_type, failure_at, held};
use super::text::normalized;
use super::{Class, Failure};

pub(super) static TEXTS: RwLock<Vec<(String, Class)>> = RwLock::new(Vec::new());
static TYPES: RwLock<Vec<Arc<Registered>>> = RwLock::new(Vec::new());

/// A registered type.
pub(super) struct Registered {
    id: TypeId,
    /// The failure that a link is, when it is of this type and its function decides.
    pub(super) failure: Box<FailureIn>,
    /// The payload as an error, when it is of this type.
    pub(super) error_in: ErrorIn,
}

type FailureIn = dyn Fn(&Link) -> Option<Failure> + Send + Sync;

/// Classifies texts that contain `pattern`, in the whole process, before the built-in tables.
///
/// For a library whose failures are known only by their words; prefer [`add_error`] where there is
/// a type. Case does not matter, nor do line breaks and double quotes (each run of them and of
/// spaces is one space), so that one pattern matches a text and the same text inside a panic
/// message. Only an error's own words are searched, not a backtrace that follows them. Of several
/// patterns in one text the latest added decides; adding a pattern again changes its class.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::io::Error;
/// use toma::classify::{Class, add_text, classify_error};
///
/// add_text("arena exhausted", Class::OutOfMemory);
/// assert_eq!(classify_error(&Error::other("step 3: Arena exhausted")).class, Class::OutOfMemory);
/// ```
///
/// # Panics
/// When `pattern` holds nothing to search for, because it would match every text.
pub fn add_text(pattern: &str, class: Class) {
    let pattern_normalized = normalized(pattern);
    let pattern_normalized = pattern_normalized.trim();
    assert!(!pattern_normalized.is_empty(), "pattern {pattern:?}: must hold something to search for");
    let mut texts = TEXTS.write().unwrap_or_else(PoisonError::into_inner);
    texts.retain(|(known, _)| known != pattern_normalized);
    texts.push((pattern_normalized.to_owned(), class));
}

/// Classifies errors of the type `E`, in the whole process, before the built-in types.
///
/// `class_of` is asked about every `E` in a failed body's chain of sources (outermost first) and about
/// an `E` that is a panic's payload; `None` leaves the decision to other types and texts. It may run
/// inside the panic hook, so it must not panic: that would end the process. Of several types the latest
/// added is asked first. Adding a type again replaces its function.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::{Class, Classify, add_error};
///
/// #[derive(Debug)]
/// struct DeviceError(u32);
/// # impl std::fmt::Display for DeviceError {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
/// #         write!(f, "device error {}", self.0)
/// #     }
/// # }
/// # impl std::error::Error for DeviceError {}
///
/// add_error::<DeviceError>(|error| (error.0 == 2).then_some(Class::OutOfMemory));
/// assert_eq!(DeviceError(2).classify().class, Class::OutOfMemory);
/// assert_eq!(DeviceError(3).classify().class, Class::Other);
/// ```
pub fn add_error<E: Error + 'static>(class_of: fn(&E) -> Option<Class>) {
    add::<E>(Box::new(move |link| {
        let class = as_type(link).and_then(class_of)?;
        Some(failure_at(link, class))
    }));
}

/// Classifies errors of a backend's type `E`, as [`add_error`] does, where even the error's words are the
/// function's to say: a `Display` may need a library that is not there.
#[doc(hidden)]
pub fn add_failure<E: Error + 'static>(failure_of: fn(&E) -> Failure) {
    add::<E>(Box::new(move |link| as_type(link).map(failure_of)));
}

fn add<E: Error + 'static>(failure: Box<FailureIn>) {
    let id = TypeId::of::<E>();
    let mut types = TYPES.write().unwrap_or_else(PoisonError::into_inner);
    types.retain(|known| known.id != id);
    types.push(Arc::new(Registered { id, failure, error_in: held::<E> }));
}

/// The class of a normalized text, when a registered pattern is in it.
pub(super) fn class_of(said: &str) -> Option<Class> {
    let texts = TEXTS.read().unwrap_or_else(PoisonError::into_inner);
    texts.iter().rev().find(|(pattern, _)| said.contains(pattern)).map(|(_, class)| *class)
}

/// The registered types, latest first.
///
/// A copy, because their functions are users' code: under the lock one that registers a type would
/// wait for itself.
pub(super) fn types() -> Vec<Arc<Registered>> {
    TYPES.read().unwrap_or_else(PoisonError::into_inner).iter().rev().map(Arc::clone).collect()
}
