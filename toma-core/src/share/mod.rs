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
//! # Who waits for whom
//!
//! Ordinary attempts run at the same time. One that has failed among others wants to be alone: it waits
//! until they have ended. A *nested* attempt, of a loop inside another attempt, holds what the
//! attempts around it hold. While it waits they are *held up*: they do not run, but keep their memory.
//!
//! Who holds memory goes before who holds none: first come the nested ones, then the others, of each sort
//! the oldest first. What each waits for on its device:
//!
//! | an attempt that is | waits until |
//! |---|---|
//! | not nested | nobody is alone, and nobody who goes before it waits to be |
//! | not nested, and wants to be alone | nobody has begun and not ended, held up or not; and nobody who goes before it waits |
//! | nested, and one around it is on the device | no other one inside that is alone, as there may be in tasks; else it waits for nothing, for its memory is held in any case |
//! | nested, and none around it is on the device | nobody runs alone, and nobody who goes before it waits to be |
//! | nested, and wants to be alone | nobody runs but those around it, and nobody who goes before it waits |
//!
//! When a nested one begins, those around it run again; so they, too, must have room. Who holds none waits
//! for all memory to come back, and who holds some waits only for those that run. So no two wait for each
//! other, on whatever devices; and where the loops inside use the same device,
//! [whoever fits alone succeeds](crate::ladder#loops-inside-attempts).
//!
//! - Who comes new and has to wait goes behind all of its sort, so nobody starves. Nested attempts inside
//!   ever new ones on another device can pass one that is not nested: the bound of its wait ends that.
//! - The attempts around one are those of its thread or task. It never waits for them.
//! - Devices are told apart by the [name](crate::memory::MemorySource::name) of the memory source.
//!   Calls without the option `device` take no part: they wait for nobody, and nobody waits for them.
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
mod vain;
mod wait;
mod wake;
mod watchdog;

pub(crate) use admission::{Admitted, Bounds};
pub(crate) use arbiter::Kind;
pub use cancel::Cancel;
pub use reservation::{NotReserved, Reservation, reserve, reserve_async, try_reserve};
pub(crate) use seat::Seat;
pub(crate) use slots::Node;
