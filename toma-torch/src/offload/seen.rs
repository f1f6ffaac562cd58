//! What a program sees of a manager, and how it steers it.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;

/// An operator that begins or has ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct OperatorCall<'a> {
    /// Its name, such as `aten::addmm`.
    pub name: &'a str,
    /// How many operators this manager has seen, this one included.
    pub number: u64,
    /// The bytes of the storages that it uses.
    pub bytes: u64,
}

/// Is called before and after each operator, on the thread that runs it.
///
/// It steers through handles: [`fetch`](super::TensorRef::fetch), [`offload`](super::TensorRef::offload),
/// [`pin`](super::TensorRef::pin). Operators of its own are seen by nothing but the manager.
pub trait AroundOperators: Send + Sync {
    /// Before an operator's arguments are fetched.
    ///
    /// # Errors
    /// The operator does not run, and fails with this.
    fn before(&self, _call: &OperatorCall<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// After it, also where it has failed.
    fn after(&self, _call: &OperatorCall<'_>) {}
}

impl<T: AroundOperators + ?Sized> AroundOperators for Arc<T> {
    fn before(&self, call: &OperatorCall<'_>) -> Result<(), Error> {
        (**self).before(call)
    }

    fn after(&self, call: &OperatorCall<'_>) {
        (**self).after(call);
    }
}

/// A storage has moved.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has left the device.
    Offloaded {
        /// The name that it was adopted under.
        name: Option<String>,
        /// Its size.
        bytes: u64,
        /// Whether its bytes were copied; a copy from before was valid otherwise.
        is_copied: bool,
    },
    /// It has come back.
    Fetched {
        /// The name that it was adopted under.
        name: Option<String>,
        /// Its size.
        bytes: u64,
        /// Whether it came before an operator needed it.
        is_ahead: bool,
    },
}

/// What hears events, on the threads that move storages.
pub(crate) type Observer = Box<dyn Fn(&Event) + Send + Sync>;

/// What a program has asked to be told.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) observer: Option<Observer>,
    pub(crate) around: Option<Box<dyn AroundOperators>>,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [observer, around] = [self.observer.is_some(), self.around.is_some()];
        f.debug_struct("Seen").field("observer", &observer).field("around", &around).finish()
    }
}
