//! What users add: types and texts of their own, for the whole process.
//!
//! Both lists are read only after a failure. A lock that a panicking thread left poisoned is used
//! all the same: each change is a single step, so the list is whole whenever it can be seen.

use std::any::{Any, TypeId};
use std::error::Error;
use std::sync::{Arc, PoisonError, RwLock};

use super::Class;
use super::chain::as_type;
use super::panic::held;
use super::text::normalized;

pub(super) static TEXTS: RwLock<Vec<(String, Class)>> = RwLock::new(Vec::new());
static JUDGES: RwLock<Vec<(TypeId, Arc<dyn Judge>)>> = RwLock::new(Vec::new());

/// Classifies texts that contain `pattern`, in the whole process, before the built-in tables.
///
/// For a library whose failures are known by their words alone; prefer [`add_error`] where there is
/// a type. Case does not matter, nor do line breaks and double quotes (each run of them and of
/// spaces is one space), so that one pattern matches a text and the same text inside a panic
/// message. Only an error's own words are searched, not a backtrace that follows them. Of several
/// patterns in one text the latest added decides; adding a pattern again changes its class.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::{Class, add_text, classify_text};
///
/// add_text("arena exhausted", Class::OutOfMemory);
/// assert_eq!(classify_text("step 3: Arena exhausted").class, Class::OutOfMemory);
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
/// `judge` is asked about every `E` in a failed body's chain of sources (outermost first) and about
/// an `E` that is a panic's payload; `None` leaves the decision to the others. It may run inside
/// the panic hook, so it must not panic: that would end the process. Of several types the latest
/// added is asked first; adding a type again replaces its judge.
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
pub fn add_error<E: Error + 'static>(judge: fn(&E) -> Option<Class>) {
    let id = TypeId::of::<E>();
    let mut judges = JUDGES.write().unwrap_or_else(PoisonError::into_inner);
    judges.retain(|(known, _)| *known != id);
    judges.push((id, Arc::new(judge)));
}

/// The class of a normalized text, when a registered pattern is in it.
pub(super) fn class_of(said: &str) -> Option<Class> {
    let texts = TEXTS.read().unwrap_or_else(PoisonError::into_inner);
    texts.iter().rev().find(|(pattern, _)| said.contains(pattern)).map(|(_, class)| *class)
}

/// The registered types, latest first.
///
/// A copy, because judges are users' code: under the lock one that registers a type would wait
/// for itself.
pub(super) fn judges() -> Vec<Arc<dyn Judge>> {
    let judges = JUDGES.read().unwrap_or_else(PoisonError::into_inner);
    judges.iter().rev().map(|(_, judge)| Arc::clone(judge)).collect()
}

/// A registered type, behind one interface for all types.
pub(super) trait Judge: Send + Sync {
    /// The class of a link, when it is of the registered type and the judge decides.
    fn class(&self, link: &(dyn Error + 'static)) -> Option<Class>;

    /// The payload as an error, when it is of the registered type.
    fn error_in<'a>(&self, payload: &'a (dyn Any + Send)) -> Option<&'a (dyn Error + 'static)>;
}

impl<E: Error + 'static> Judge for fn(&E) -> Option<Class> {
    fn class(&self, link: &(dyn Error + 'static)) -> Option<Class> {
        as_type::<E>(link).and_then(self)
    }

    fn error_in<'a>(&self, payload: &'a (dyn Any + Send)) -> Option<&'a (dyn Error + 'static)> {
        held::<E>(payload)
    }
}
