//! A witness is notified of running attempts, and asked which allocations filled the memory.
//!
//! When a failure is handled, its body has unwound, and the memory that it filled is free again. Only a library that
//! counts allocations can have recorded them, at the moment of the failure. Such a library registers a [`Witness`],
//! once for the process, and [switches](listen) it on while it counts. The answer of the witness is in
//! [events](super::EventKind::Failed), in the [report](crate::report::Report::filled) and under the line that
//! `TOMA_LOG=1` prints.
//!
//! A witness changes no size and no retry. It costs nothing while none listens.
//!
//! ```
//! # extern crate toma_core as toma;
//! use std::cell::Cell;
//! use toma::observe::witness::{self, Attempted, Ended, Witness};
//! use toma::{NoCache, classify::OutOfMemory, execute, report};
//!
//! thread_local! {
//!     /// Size of the innermost attempt that runs on this thread.
//!     static SIZE: Cell<usize> = const { Cell::new(0) };
//!     /// Bytes of the request that failed, and the size of its attempt.
//!     static ASKED: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
//! }
//!
//! /// An allocator that has room for 5000 bytes.
//! fn allocate(bytes: usize) -> Result<(), OutOfMemory> {
//!     if bytes <= 5000 {
//!         return Ok(());
//!     }
//!     ASKED.set(Some((bytes, SIZE.get())));
//!     Err(OutOfMemory::new(None))
//! }
//!
//! struct Allocator;
//!
//! impl Witness for Allocator {
//!     fn enter(&self, attempt: &Attempted<'_>) {
//!         SIZE.set(attempt.size);
//!     }
//!
//!     fn leave(&self) {}
//!
//!     fn ended(&self, _: &Attempted<'_>, _: Ended) {}
//!
//!     fn filled(&self) -> Option<String> {
//!         let (bytes, size) = ASKED.take()?;
//!         Some(format!("{bytes} bytes for {size} items"))
//!     }
//! }
//!
//! assert!(witness::register(&Allocator));
//! witness::listen(true);
//! execute::with::<NoCache>().range(0..8, 8, |start, end| allocate((end - start) * 1000))?;
//! witness::listen(false);
//! let report = report::last().unwrap();
//! assert_eq!(report.filled.as_deref(), Some("8000 bytes for 8 items"));
//! assert!(report.to_string().contains("\n  filled   8000 bytes for 8 items\n"));
//! # Ok::<(), OutOfMemory>(())
//! ```

mod witnessed;

use std::sync::OnceLock;

use crate::classify::Class;
use crate::switches::Switches;

pub(crate) use witnessed::{Entered, Witnessed, filled};

static REGISTERED: OnceLock<&'static dyn Witness> = OnceLock::new();

/// Is notified of running attempts, and reports the allocations that filled the memory.
///
/// Each [`enter`](Self::enter) is followed by one [`leave`](Self::leave) on the same thread, however the attempt ends.
/// In between, attempts of inner loops may be entered and left. An asynchronous attempt is entered for each poll, and
/// once more if it is dropped while it waits. The value of a failed attempt is dropped inside of the attempt.
///
/// Dry runs are no attempts. Attempts of loops that the witness runs itself are not reported to it; these loops notify
/// only their own `observer` option. A witness that panics no longer [listens](listen), and the work goes on.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::observe::witness::{Attempted, Ended, Witness};
///
/// /// Prints the attempts, and knows nothing about memory.
/// struct Printer;
///
/// impl Witness for Printer {
///     fn enter(&self, attempt: &Attempted<'_>) {
///         println!("{}: attempt {}", attempt.name, attempt.number);
///     }
///
///     fn leave(&self) {}
///
///     fn ended(&self, _: &Attempted<'_>, ended: Ended) {
///         println!("{ended:?}");
///     }
///
///     fn filled(&self) -> Option<String> {
///         None
///     }
/// }
/// ```
pub trait Witness: Sync {
    /// Called when this thread begins to run the attempt, or resumes it.
    fn enter(&self, attempt: &Attempted<'_>);

    /// Called when this thread stops running the attempt that was entered last and not left, because it waits or has
    /// ended.
    fn leave(&self);

    /// Called once for each attempt that has ended, after all other calls for it and before the next attempt of its
    /// call.
    fn ended(&self, attempt: &Attempted<'_>, ended: Ended);

    /// Returns the allocations that filled the memory when the last attempt of this thread ran out of it, in one or
    /// several lines; `None` if they are unknown.
    ///
    /// Called once for each attempt that runs out of memory: after the body has unwound, and before observers are
    /// notified. If a loop gives up and the outer attempt fails with its error, it is called for both.
    fn filled(&self) -> Option<String>;
}

/// An attempt of a call.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::observe::witness::Attempted;
///
/// fn describe(attempt: &Attempted<'_>) -> String {
///     format!("{}: items {} to {}", attempt.name, attempt.start, attempt.end)
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempted<'a> {
    /// Number that distinguishes concurrent calls, as in the [events](super::Event::call).
    pub call: u64,
    /// The name of the call.
    pub name: &'a str,
    /// The number of the attempt within the call, counted from 1.
    pub number: usize,
    /// First item.
    pub start: usize,
    /// One past the last item.
    pub end: usize,
    /// The size of the attempt: the number of its items, or their cost.
    pub size: usize,
    /// True if it was entered before: it has waited, or its values are dropped.
    pub resumes: bool,
}

/// The outcome of an attempt.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::classify::Class;
/// use toma::observe::witness::Ended;
///
/// fn ran_out(ended: Ended) -> bool {
///     ended == Ended::Failed(Class::OutOfMemory)
/// }
/// assert!(!ran_out(Ended::Succeeded));
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The attempt succeeded.
    Succeeded,
    /// The attempt failed, with a failure of this class.
    Failed(Class),
    /// Neither: the attempt was dropped while it waited, or other code of its call panicked before its outcome was
    /// known.
    Abandoned,
}

/// Registers the witness of the process, permanently. It is not notified until it [listens](listen). Returns false if
/// one is registered already: there is room for one.
///
/// ```
/// # extern crate toma_core as toma;
/// # use toma::observe::witness::{Attempted, Ended, Witness};
/// use toma::observe::witness;
///
/// # struct Allocator;
/// # impl Witness for Allocator {
/// #     fn enter(&self, _: &Attempted<'_>) {}
/// #     fn leave(&self) {}
/// #     fn ended(&self, _: &Attempted<'_>, _: Ended) {}
/// #     fn filled(&self) -> Option<String> { None }
/// # }
/// assert!(witness::register(&Allocator)); // `Allocator` implements `Witness`
/// ```
pub fn register(witness: &'static dyn Witness) -> bool {
    REGISTERED.set(witness).is_ok()
}

/// Switches the witness on or off.
///
/// Once switched on, it is notified of calls that begin from then on, and asked about all attempts that run out of
/// memory. Once switched off, it is not notified of attempts that begin, but still of those that run, to their end.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::observe::witness;
///
/// witness::listen(true);
/// // ... loops whose attempts are counted ...
/// witness::listen(false);
/// ```
pub fn listen(on: bool) {
    Switches::set(Switches::WITNESSED, on);
}
