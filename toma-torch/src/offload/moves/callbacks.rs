//! Callbacks by which a program observes and steers a manager.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use toma_core::private::contained;

use crate::error::Error;
use crate::ffi::Aside;

/// An operator that begins or has ended.
///
/// ```
/// use toma_torch::offload::OperatorCall;
///
/// fn describe(call: &OperatorCall<'_>) -> String {
///     format!("operator {}: {} works on {} bytes", call.number, call.name, call.bytes)
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct OperatorCall<'a> {
    /// Name of the operator, such as `aten::addmm`.
    pub name: &'a str,
    /// Number of operators that this manager has seen, including this one.
    pub number: u64,
    /// Bytes of the storages that the operator uses.
    pub bytes: u64,
}

/// Callbacks before and after each operator, on the thread that runs it.
///
/// They steer through handles: [`fetch`](crate::offload::TensorRef::fetch),
/// [`offload`](crate::offload::TensorRef::offload), [`pin`](crate::offload::TensorRef::pin). Operators that a callback
/// runs are seen by the manager, but not by callbacks.
///
/// ```
/// use toma_torch::offload::{AroundOperators, Manager, OperatorCall};
/// use toma_torch::{Device, Error};
///
/// /// Prints each operator.
/// struct Printer;
///
/// impl AroundOperators for Printer {
///     fn before(&self, call: &OperatorCall<'_>) -> Result<(), Error> {
///         println!("{}", call.name);
///         Ok(())
///     }
/// }
///
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).around_operators(Printer);
/// # drop(manager);
/// ```
pub trait AroundOperators: Send + Sync {
    /// Called before an operator's arguments are fetched.
    ///
    /// # Errors
    /// The operator does not run, and fails with this error.
    fn before(&self, _call: &OperatorCall<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// Called after the operator, also if it has failed.
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

/// A move of a storage.
///
/// ```
/// use toma_torch::Device;
/// use toma_torch::offload::{Event, Manager};
///
/// let observer = |event: &Event| {
///     if let Event::Fetched { name, bytes, is_ahead: false } = event {
///         println!("{name:?}: an operator waited for {bytes} bytes");
///     }
/// };
/// let manager = Manager::new(&Device::new(tch::Device::Cpu)).observer(observer);
/// # drop(manager);
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The storage was evicted from the device.
    Offloaded {
        /// The name that it was adopted under.
        name: Option<String>,
        /// Size in bytes.
        bytes: u64,
        /// True if the bytes were copied; false if an earlier copy was still valid.
        is_copied: bool,
    },
    /// The storage was fetched to the device.
    Fetched {
        /// The name that it was adopted under.
        name: Option<String>,
        /// Size in bytes.
        bytes: u64,
        /// True if it was fetched before an operator needed it.
        is_ahead: bool,
    },
}

/// Callback for events, on the threads that move storages.
pub(crate) type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// Callbacks that a program has set.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) observer: Option<Observer>,
    pub(crate) around: Option<Box<dyn AroundOperators>>,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [observer, around] = [self.observer.is_some(), self.around.is_some()];
        f.debug_struct("Callbacks").field("observer", &observer).field("around", &around).finish()
    }
}

thread_local! {
    /// Set while a user callback runs, so that operators inside the callback do not call it again.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    /// Number of the guards [`Moving`] of this thread.
    static MOVING: Cell<usize> = const { Cell::new(0) };
    /// Events for the end of the moves that this thread makes.
    static POSTPONED: RefCell<Vec<(Observer, Event)>> = const { RefCell::new(Vec::new()) };
}

/// Runs a user callback, unless one runs on this thread already: then returns `nested`. `None` if it panicked.
pub(super) fn called<T>(nested: T, foreign: impl FnOnce() -> T) -> Option<T> {
    if IN_CALLBACK.replace(true) {
        return Some(nested);
    }
    let result = contained(foreign);
    IN_CALLBACK.set(false);
    result
}

/// Guard of a thread that moves storages. Observers are called when the outermost is dropped: until then a storage
/// may be marked as moving, and an observer that fetches it would wait for its own thread.
#[must_use = "observers are called when it is dropped"]
pub(crate) struct Moving {
    /// Dropped after the observers have been called.
    _aside: Option<Aside>,
}

impl Moving {
    pub(crate) fn begin() -> Self {
        Self::with(None)
    }

    /// Begins with an [`Aside`], which ends after the observers have been called.
    pub(crate) fn begin_aside() -> Self {
        Self::with(Some(Aside::begin()))
    }

    fn with(aside: Option<Aside>) -> Self {
        MOVING.set(MOVING.get() + 1);
        Self { _aside: aside }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        MOVING.set(MOVING.get() - 1);
        if MOVING.get() == 0 {
            let events = POSTPONED.try_with(RefCell::take).unwrap_or_default();
            for (observer, event) in events {
                called((), || observer(&event));
            }
        }
    }
}

/// Keeps an event for the end of the moves of this thread.
pub(super) fn postpone(observer: &Observer, event: Event) {
    let postponed = (Observer::clone(observer), event);
    let _thread_ends = POSTPONED.try_with(|events| events.borrow_mut().push(postponed));
}
