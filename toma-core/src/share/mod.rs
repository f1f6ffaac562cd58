//! Threads and tasks that share a device: turns, bytes that are kept for one of them, cancellation.
//!
//! Work that fits a device alone need not fit beside other work. Shrinking then would learn a size that
//! is too small for whenever the others are gone. So calls with the option `device` know of each other:
//! when one of them runs out of memory while others run, it waits until they have ended, and tries the
//! same size alone before it shrinks. Nobody has to ask for that; this page says how it goes, and what
//! else there is:
//!
//! | for | see |
//! |---|---|
//! | bytes that are known beforehand, kept until they are used | [`reserve`], [`try_reserve`], [`reserve_async`] |
//! | ending the waits and retries of calls from outside | [`Cancel`] |
//!
//! # Turns
//!
//! - Ordinary attempts run at the same time. One that failed among others waits until it is alone; those
//!   that begin meanwhile wait behind it. The oldest comes first, so nobody starves.
//! - Devices are told apart by the [name](crate::memory::MemorySource::name) of the memory source.
//!   Calls without the option `device` take no part: they wait for nobody, and nobody waits for them.
//! - An attempt that waits does not count as running, and neither do the attempts around it. An attempt
//!   belongs to those around it and never waits for them. So no two calls wait for each other.
//! - Every wait is bounded, and so are those that depend on it. When the bound or the call's deadline has
//!   passed, or somebody has cancelled, the attempt begins beside the others or the call ends.
//! - Only waiting costs anything that others notice: an attempt that finds nobody waiting writes one
//!   cache line of its own, and neither locks nor allocates.
//! - Threads are parked, tasks are woken. In a program with tasks, use asynchronous bodies: a thread that
//!   is parked polls nothing, so a task that it would have to poll keeps it waiting until the bound.
//!
//! Memory that is held between attempts, such as the weights of a model, is in nobody's way here: it
//! has no end to wait for.
//!
//! ```
//! # extern crate toma_core as toma;
//! use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
//! use std::time::Duration;
//!
//! use toma::memory::{MemorySource, Reading};
//! use toma::share::{self, NotReserved};
//!
//! /// A pool of 1000 bytes.
//! #[derive(Debug)]
//! struct Pool {
//!     used: AtomicU64,
//! }
//!
//! impl MemorySource for Pool {
//!     fn name(&self) -> &str {
//!         "pool:1"
//!     }
//!
//!     fn read(&self) -> std::io::Result<Reading> {
//!         Ok(Reading::new(1000 - self.used.load(SeqCst), 1000))
//!     }
//! }
//!
//! let pool = Pool { used: AtomicU64::new(0) };
//! std::thread::scope(|scope| {
//!     let workers: Vec<_> = (0..8).map(|_| scope.spawn(|| {
//!         // Three at a time, whoever comes first.
//!         let _reserved = share::reserve(&pool, 300, Duration::from_secs(60))?;
//!         let used = pool.used.fetch_add(300, SeqCst) + 300;
//!         assert!(used <= 1000);
//!         pool.used.fetch_sub(300, SeqCst);
//!         Ok::<(), NotReserved>(())
//!     })).collect();
//!     workers.into_iter().try_for_each(|worker| worker.join().unwrap())
//! })?;
//! # Ok::<(), NotReserved>(())
//! ```

mod admission;
mod arbiter;
mod cancel;
#[cfg(test)]
mod every_order;
#[cfg(test)]
mod fits_alone;
mod hub;
mod ledger;
mod reservation;
mod seat;
mod slots;
mod sync;
#[cfg(test)]
mod tests;
mod wait;
mod wake;
mod watchdog;

pub(crate) use admission::{Admitted, Bounds};
pub(crate) use arbiter::Kind;
pub use cancel::Cancel;
pub use reservation::{NotReserved, Reservation, reserve, reserve_async, try_reserve};
pub(crate) use seat::Seat;
pub(crate) use slots::Node;
