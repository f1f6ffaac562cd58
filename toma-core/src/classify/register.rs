//! Types and texts that users and backends add, for the whole process.
//!
//! Both lists are read only after a failure. A lock that a panicking thread poisoned is used anyway: each change is
//! a single step, so the list is consistent whenever it can be seen.

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
    /// Returns the failure of a link of this type, if the type's function decides.
    pub(super) failure: Box<FailureIn>,
    /// Returns the payload as an error, if it is of this type.
    pub(super) error_in: ErrorIn,
}

type FailureIn = dyn Fn(&Link) -> Option<Failure> + Send + Sync;

/// Classifies texts that contain `pattern`, in the whole process, before the built-in tables.
///
/// For a library whose failures are known only by their texts; prefer [`add_error`] if there is a type. Case, line
/// breaks and double quotes do not matter (each run of them and of spaces is one space), so one pattern matches a
/// text and the same text inside a panic message. Only an error's own message is searched, not a backtrace after
/// it. If several patterns are in one text, the latest added decides; adding a pattern again changes its class.
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
/// If `pattern` holds nothing to search for, because it would match every text.
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
/// `class_of` is called for every `E` in a failed body's chain of sources (outermost first) and for an `E` that is
/// a panic's payload; `None` leaves the decision to other types and texts. It may run inside the panic hook, so it
/// must not panic, because that would end the process. Of several types the latest added is asked first. Adding a
/// type again replaces its function.
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

/// Classifies errors of a backend's type `E`, as [`add_error`] does, but the function also provides the message:
/// `Display` may need a library that is missing.
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

/// Returns the class of a normalized text, if a registered pattern is in it.
pub(super) fn class_of(text: &str) -> Option<Class> {
    let texts = TEXTS.read().unwrap_or_else(PoisonError::into_inner);
    texts.iter().rev().find(|(pattern, _)| text.contains(pattern)).map(|(_, class)| *class)
}

/// Returns the registered types, latest first.
///
/// A copy, because their functions are users' code: one that registers a type would wait for the lock forever.
pub(super) fn types() -> Vec<Arc<Registered>> {
    TYPES.read().unwrap_or_else(PoisonError::into_inner).iter().rev().map(Arc::clone).collect()
}
