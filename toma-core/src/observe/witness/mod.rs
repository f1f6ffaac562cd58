//! A witness: told where attempts run, and asked what filled the memory.
//!
//! Once a failure is looked at, its body has unwound, and what filled the memory is free again. Only a library that
//! counts what is allocated can have seen it, in the moment of the failure. Such a library registers a [`Witness`],
//! once for the process, and [switches](listen) it on while it counts. What the witness answers is in
//! [events](super::EventKind::Failed), in the [report](crate::report::Report::filled) and under the line that `TOMA_LOG=1`
//! prints.
//!
//! It changes no size and no retry. Without one, and while none listens, nothing is paid for it.
//!
//! ```
//! # extern crate toma_core as toma;
//! use std::cell::Cell;
//! use toma::observe::witness::{self, Attempted, Ended, Witness};
//! use toma::{NoCache, classify::OutOfMemory, execute, report};
//!
//! thread_local! {
//!     /// Of the attempts that run on this thread, the innermost.
//!     static SIZE: Cell<usize> = const { Cell::new(0) };
//!     /// What was asked for in vain.
//!     static ASKED: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
//! }
//!
//! /// An allocator that has room for so many bytes.
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
//! witness::register(&Allocator)?;
//! witness::listen(true);
//! execute::with::<NoCache>().range(0..8, 8, |start, end| allocate((end - start) * 1000))?;
//! witness::listen(false);
//! let report = report::last().unwrap();
//! assert_eq!(report.filled.as_deref(), Some("8000 bytes for 8 items"));
//! assert!(report.to_string().contains("\n  filled   8000 bytes for 8 items\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod witnessed;

use std::error::Error;
use std::fmt;
use std::sync::OnceLock;

use crate::classify::Class;
use crate::switches;

pub(crate) use witnessed::{Entered, Witnessed, filled};

static REGISTERED: OnceLock<&'static dyn Witness> = OnceLock::new();

/// Sees where attempts run, and says what filled the memory.
///
/// Each [`enter`](Self::enter) is followed by one [`leave`](Self::leave) on the same thread, whatever way the attempt
/// ends. In between there may be those of loops inside. An asynchronous attempt is entered for each poll, and once more
/// where it is dropped while it waits. The value of an attempt that failed is dropped inside of it.
///
/// Dry runs are no attempts. Neither are those of loops that the witness runs itself: they are shown only to observers
/// of their own. A witness that panics no longer [listens](listen), and the work goes on.
pub trait Witness: Sync {
    /// This thread begins to run the attempt, or goes on with it.
    fn enter(&self, attempt: &Attempted<'_>);

    /// It stops to, because the attempt waits, or because it has ended. Told of the last attempt that was entered and
    /// not left.
    fn leave(&self);

    /// The attempt has ended: told once of each, last of all, and before the next attempt of its call begins.
    fn ended(&self, attempt: &Attempted<'_>, ended: Ended);

    /// What filled the memory when the last attempt of this thread ran out of it, in one or several lines; `None` where
    /// that is not known.
    ///
    /// Asked once for each attempt that runs out of memory: after the body has unwound, and before observers hear of
    /// it. Where a loop gives up and the attempt around it fails with its error, it is asked for both.
    fn filled(&self) -> Option<String>;
}

/// An attempt of a call.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempted<'a> {
    /// A number that tells concurrent calls apart: that of its [events](super::Event::call).
    pub call: u64,
    /// The name of the call.
    pub name: &'a str,
    /// Which attempt of the call it is, counted from 1.
    pub number: usize,
    /// First item.
    pub start: usize,
    /// One past the last item.
    pub end: usize,
    /// The size of the attempt: so many items, or what they cost.
    pub size: usize,
    /// It was entered before: it has waited, or what it left behind is dropped.
    pub resumes: bool,
}

/// How an attempt ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It succeeded.
    Succeeded,
    /// It failed, with a failure of this class.
    Failed(Class),
    /// Neither: it was dropped while it waited, or other code of its call panicked before it was known.
    Abandoned,
}

/// Registers the witness of the process, for good. It is told of nothing until it [listens](listen).
///
/// # Errors
/// When one is registered already: there is room for one.
pub fn register(witness: &'static dyn Witness) -> Result<(), AlreadyRegistered> {
    REGISTERED.set(witness).map_err(|_| AlreadyRegistered(()))
}

/// Says whether the witness is told of anything.
///
/// Once switched on, it is told of calls that begin from then on, and asked about all that run out of memory. Once
/// switched off, it is told of no attempt that begins, and of those that run to their end.
pub fn listen(on: bool) {
    switches::set_witnessed(on);
}

/// A second witness was to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyRegistered(());

impl fmt::Display for AlreadyRegistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("witness: one is registered already, and there is room for one")
    }
}

impl Error for AlreadyRegistered {}
