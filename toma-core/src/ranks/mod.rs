//! Processes that train together agree on sizes.
//!
//! In data-parallel work every process, a *rank*, runs the same loop. When one runs out of memory and retries alone,
//! the others wait for it in a collective for ever. With the option [`ranks`](crate::execute::With::ranks) all ranks
//! make the same attempts at the same sizes: out of memory on one rank is out of memory on all of them.
//!
//! ```
//! # extern crate toma_core as toma;
//! use std::thread;
//! use toma::{NoCache, classify::OutOfMemory, execute, ranks};
//!
//! // Two ranks, of which the second has half the memory.
//! let ranks = ranks::threads(2);
//! let sizes: Vec<_> = thread::scope(|scope| {
//!     let run = |rank: ranks::Member| {
//!         let room = 4 - 2 * ranks::Group::rank(&rank);
//!         execute::with::<NoCache>().ranks(&rank).batch(8, |size| {
//!             if size > room { Err(OutOfMemory::new(None)) } else { Ok(size) }
//!         })
//!     };
//!     let running: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
//!     running.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect()
//! });
//! assert_eq!(sizes, [2, 2]);
//! ```
//!
//! # Agreement
//! Ranks vote once when a call begins, and once at the end of each attempt. The attempt has failed if it has failed on
//! any rank. Ranks that succeeded then drop their value, undo, release cached memory and retry with the others. The
//! next size is the smallest that any rank proposes; a rank whose size covers all of its remaining work proposes none.
//! A rank that is done continues to vote until all are.
//!
//! Any other failure ends the call on all ranks: with the original error on its own rank, with an [`Error`] that names
//! rank, call and message on the others. A rank that does not vote within the timeout ends the call, too. The error is
//! returned if the body returns a `Result` whose error type [can hold it](add_error); otherwise the call panics.
//!
//! # Collectives in bodies
//! A body that waits for other ranks (NCCL, MPI) hangs when one of them has failed before. Compute in the body, and
//! reduce once the call has returned: by then all ranks have agreed. Work that must happen once for an attempt that
//! counts, such as adding gradients, is passed to [`when_agreed`]. [`agree`](Group::agree),
//! [`smallest`](Group::smallest) and [`barrier`](Group::barrier) are for your own loops.
//!
//! # One call at a time
//! Votes are matched by their number, and by form, name and attempt of the call. So one call at a time runs over a
//! [`Group`]: a second one next to it or inside of it is refused. Work on another thread needs ranks of another
//! [name](Member::named). Inside of an attempt on which ranks agree, ranks of another name are refused, too.

mod awaited;
mod bytes;
mod calls;
pub(crate) mod ended;
mod error;
mod member;
mod memory;
mod store;
mod threads;
mod verdict;
mod vote;

use std::fmt;

pub(crate) use self::awaited::awaited;
#[doc(hidden)]
pub use self::calls::{Calls, Running};
pub use self::ended::{Error, add_error};
#[doc(hidden)]
pub use self::member::DEFAULT_TIMEOUT;
pub use self::member::Member;
pub use self::memory::MemoryStore;
pub use self::store::{Store, StoreError};
pub use self::threads::threads;
#[doc(hidden)]
pub use self::verdict::Agreed;
pub use self::verdict::Elsewhere;
#[doc(hidden)]
pub use self::vote::{RankState, Subject, Vote};
use crate::leaner;
use crate::nesting::Nesting;
use crate::shield;

/// A function that waits for the votes of the other ranks, up to the timeout.
#[doc(hidden)]
pub type Waiting = Box<dyn FnOnce() -> Result<Agreed, Error> + Send>;

/// The processes, or threads, that make the same calls.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
/// use toma::ranks::{self, Calls, Error, Group, Member, Vote, Waiting};
///
/// /// A rank that counts its votes.
/// #[derive(Debug)]
/// struct Counted {
///     rank: Member,
///     votes: AtomicUsize,
/// }
///
/// impl Group for Counted {
///     fn rank(&self) -> usize {
///         self.rank.rank()
///     }
///
///     fn size(&self) -> usize {
///         self.rank.size()
///     }
///
///     fn calls(&self) -> &Calls {
///         self.rank.calls()
///     }
///
///     fn cast(&self, vote: Vote) -> Result<Waiting, Error> {
///         self.votes.fetch_add(1, Relaxed);
///         self.rank.cast(vote)
///     }
/// }
///
/// let ranks = ranks::threads(2).into_iter().map(|rank| Counted { rank, votes: AtomicUsize::new(0) });
/// let threads = ranks.map(|ranks| std::thread::spawn(move || ranks.barrier().map(|()| ranks.votes.into_inner())));
/// for thread in threads.collect::<Vec<_>>() {
///     assert_eq!(thread.join().unwrap()?, 1);
/// }
/// # Ok::<(), Error>(())
/// ```
pub trait Group: fmt::Debug + Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// The call that runs over these ranks on this rank, if any.
    fn calls(&self) -> &Calls;

    /// Casts this rank's vote. The others receive it even if the returned function is dropped.
    ///
    /// # Errors
    /// [`Error::Store`] if the vote cannot be stored.
    fn cast(&self, vote: Vote) -> Result<Waiting, Error>;

    /// Returns true if all ranks pass `ok`. For your own loops.
    ///
    /// # Errors
    /// If ranks are missing or run something else, a call runs over these ranks, or this runs in an attempt on which
    /// ranks agree.
    fn agree(&self, ok: bool) -> Result<bool, Error> {
        let state = if ok { RankState::Ready } else { RankState::Failed(crate::classify::Class::Other) };
        let agreed = ask(self, Subject::new("agree", String::new()), state, usize::MAX)?;
        Ok(agreed.map_or(ok, |agreed| agreed.failed.is_none()))
    }

    /// Returns the smallest of the values of all ranks.
    ///
    /// # Errors
    /// As [`agree`](Self::agree).
    fn smallest(&self, value: usize) -> Result<usize, Error> {
        let subject = Subject::new("smallest", String::new());
        Ok(ask(self, subject, RankState::Ready, value)?.map_or(value, |agreed| agreed.next))
    }

    /// Waits for all ranks.
    ///
    /// # Errors
    /// As [`agree`](Self::agree).
    fn barrier(&self) -> Result<(), Error> {
        ask(self, Subject::new("barrier", String::new()), RankState::Ready, usize::MAX).map(drop)
    }
}

/// Runs one exchange of votes among all ranks; returns `None` if there is only one rank.
fn ask<R: Group + ?Sized>(
    ranks: &R,
    subject: Subject,
    state: RankState,
    value: usize,
) -> Result<Option<Agreed>, Error> {
    if ranks.size() == 1 {
        return Ok(None);
    }
    let _running = ranks.calls().begin(&subject)?;
    if Nesting::now().marks.agrees {
        // Another rank may have failed before, and would never take part.
        let refused = format!("{subject} in an attempt on which ranks agree: must be outside of it");
        return Err(Error::Invalid(refused));
    }
    ranks.cast(Vote { subject, state, next: value, retry: value })?().map(Some)
}

macro_rules! forward {
    ($([$($generics:tt)*] $type:ty;)*) => {$(
        impl<$($generics)*> Group for $type {
            fn rank(&self) -> usize {
                (**self).rank()
            }

            fn size(&self) -> usize {
                (**self).size()
            }

            fn calls(&self) -> &Calls {
                (**self).calls()
            }

            fn cast(&self, vote: Vote) -> Result<Waiting, Error> {
                (**self).cast(vote)
            }
        }
    )*};
}

forward! {
    [R: Group + ?Sized] &R;
    [R: Group + ?Sized] std::sync::Arc<R>;
    [R: Group + ?Sized] Box<R>;
}

/// Runs `action` once the attempt counts: immediately outside of calls with `ranks`, and otherwise when all ranks have
/// agreed that it succeeded. The action is dropped if the attempt is made again, and in dry runs.
///
/// It runs on the thread of the call, before the call continues. Code that can fail belongs before it: a panic of
/// `action` ends the call on this rank, and on others that have anything left to do. A thread that a body starts is
/// outside of the call.
///
/// ```
/// # extern crate toma_core as toma;
/// let mut calls = std::sync::atomic::AtomicUsize::new(0);
/// # let calls = std::sync::Arc::new(calls);
/// # let count = calls.clone();
/// toma::ranks::when_agreed(move || {
///     count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
/// });
/// assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
/// ```
pub fn when_agreed(action: impl FnOnce() + Send + 'static) {
    if agrees_later() {
        leaner::when_agreed(Box::new(action));
    } else if !shield::is_dry() {
        action();
    }
}

/// Returns true if [`when_agreed`] would defer: the running attempt counts only once all ranks agree that it succeeded.
#[doc(hidden)]
pub fn agrees_later() -> bool {
    Nesting::now().marks.agrees && leaner::is_kept()
}
