//! Devices that threads and tasks share: turns, retries at the same size, and bytes that are kept.
//!
//! Work that fits a device by itself may not fit next to other work. Shrinking would then learn a size that is too
//! small once the other work is gone. So attempts of calls with the option `device` take *turns*. An attempt that
//! runs out of memory under contention is repeated at the same size, with the device to itself.
//!
//! | for | see |
//! |---|---|
//! | which retries a call makes before it shrinks | [`Ladder`] |
//! | giving memory back when a call runs out of it | [`on_release`] |
//! | keeping bytes for work that knows how many it needs | [`reserve`], [`try_reserve`], [`reserve_async`] |
//! | announcing bytes that work will allocate, so that they do not count as free | [`promise()`], [`promised_bytes`] |
//! | ending the waits and retries of calls from outside | [`Cancel`] |
//!
//! # The ladder
//! An attempt that ran out of memory climbs a ladder. Each enabled rung gives it one more attempt at the same size:
//!
//! 1. **Release.** Tries the same size again, because cached memory is released after every failure. Off by
//!    default, because libtorch's allocator releases its cache before it raises an error; meant for memory sources
//!    that do not.
//! 2. **Exclusive.** After contention: waits for an exclusive turn, and tries the same size again. On, for at most
//!    10 seconds each time.
//! 3. **Leaner.** Asks the handle that the attempt has [offered](crate::leaner) for a leaner plan. On, where there
//!    is an offer.
//! 4. **Hooks.** Asks the [registered](on_release) hooks to give memory back. On, where there are any.
//! 5. **Smaller.** Tries the next size of the policy. A new size starts again at the first rung, but leaner plans
//!    and hooks are asked only once per piece.
//! 6. **Fallback.** When no smaller size is left: tries the first size again, and [`falls_back`] returns true, so
//!    that the body may use any other memory. Off. The rest of the call stays in fallback, also after a single item
//!    that fails where sizes are [costs](crate::execute::With::by_cost).
//! 7. **Give up.** The body's own failure reaches the caller.
//!
//! `max_attempts` counts all of these attempts. A success on one of the first four rungs settles no size, because
//! the size was never too large.
//!
//! # Turns
//! Each attempt holds a turn on its device from its beginning to its end:
//!
//! | an attempt | takes |
//! |---|---|
//! | of a call without `device`, or in fallback | no turn; inner loops are not nested |
//! | inside an attempt that holds a turn on the same device | no turn of its own |
//! | inside an attempt that holds a turn on another device | a shared turn, at once |
//! | whose call does not wait | a shared turn, at once |
//! | after a failure under contention | an exclusive turn, once no other turn runs |
//! | otherwise | a shared turn, once no turn is exclusive and no attempt waits |
//!
//! - *Contention*: other turns ran when the attempt began, run now, or have begun since.
//! - Waiting attempts are served in the order in which they came. While any attempt waits, new ones queue behind
//!   it. Neighbors in the queue that want shared turns begin together.
//! - Before an attempt waits, its failed run is undone and cached memory is released, so it holds no memory.
//! - An exclusive turn lasts until its piece is done or given up, smaller sizes included. After it the call asks
//!   for exclusive turns for its next 1, 2, 4 .. 64 pieces, each at the tail of the queue.
//! - Attempts that never wait may begin next to an exclusive one. The exclusive attempt then has contention, and
//!   repeats its size once.
//! - Loops in hooks and observers hold the turn that their call keeps meanwhile. Neither they nor [`reserve`] wait
//!   while an observer receives the event that the call [waits](crate::observe::EventKind::Waits).
//! - Work that holds a turn never waits, neither for a turn nor for bytes: [`reserve`] behaves as [`try_reserve`]
//!   there. So no two calls wait for each other, on any devices. A loop that blocks inside an asynchronous attempt
//!   does not wait either, because the executor may need its thread. A wait that began outside ends when an attempt
//!   that holds a turn polls it.
//! - Every wait ends at its [bound](Ladder::wait), at the call's deadline or by [`Cancel`]. One attempt next to the
//!   others follows, without the promise of another retry. A wait past its bound blocks no other, even if its task
//!   is never polled. A granted turn that is not claimed by then goes to the next attempt.
//! - After a wait that lasted its full bound, no call waits for the device for ten times as long, or until the
//!   attempts that ran then have ended.
//! - Devices are distinguished by the [name](crate::memory::MemorySource::name) of the memory source.
//! - An iterator holds no turn between two values. A stream that is left in the middle of an attempt keeps its
//!   turn, as it keeps its memory.
//! - A child of `fork` starts with no turns, waits or reservations.
//!
//! No call waits for memory that is held between attempts, such as the weights of a model.
//!
//! # Loops inside attempts
//! Say two threads hold 40 of 100 bytes each, and each needs 50 more in an inner loop. Neither gets them. So an
//! attempt that would be repeated exclusively promises that before it begins. Under a promise on its device, an
//! inner loop *gives way* at its first failure under contention, for the reason
//! [`GaveWay`](crate::observe::Reason::GaveWay), before it leaves items out or falls back. The outermost attempt,
//! if its body fails then, is out of memory whatever the body's error: it gives its 40 bytes back, and is repeated
//! exclusively. So on one device every call succeeds whose work fits by itself. A body that succeeds without the
//! inner loop's result has succeeded: it may have added gradients, which must not be added twice.
//!
//! Without a promise, or in an exclusive turn, an inner loop shrinks as usual. There is no promise if the outer
//! attempt would not wait: because of its ladder, `max_attempts`, deadline or [`Cancel`], because a recent wait was
//! in vain, or because it has no `device`.
//!
//! # What to expect
//! - An outer attempt is repeated in cases where a wait of the inner loop might have sufficed. Allocate as late as
//!   possible.
//! - Threads or tasks that a body starts and joins are not nested in its attempt. Loops in them may wait for that
//!   attempt until the bound, in each attempt anew: give them a [`Ladder`]
//!   [`without_waiting`](Ladder::without_waiting).
//! - Loops that a body runs at the same time, as with `join!`, shrink each other.
//! - An inner loop on a second device shrinks under contention instead of waiting.
//! - A waiting thread is parked and polls nothing. In a program with tasks, use asynchronous bodies.
//!
//! # Example
//! ```
//! # extern crate toma_core as toma;
//! use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
//! use std::time::Duration;
//!
//! use toma::device::{self, NotReserved};
//! use toma::memory::{MemorySource, Reading};
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
//!         // At most three at a time, in the order in which they ask.
//!         let _reserved = device::reserve(&pool, 300, Duration::from_secs(60))?;
//!         let used = pool.used.fetch_add(300, SeqCst) + 300;
//!         assert!(used <= 1000);
//!         pool.used.fetch_sub(300, SeqCst);
//!         Ok::<(), NotReserved>(())
//!     })).collect();
//!     workers.into_iter().try_for_each(|worker| worker.join().unwrap())
//! })?;
//! # Ok::<(), NotReserved>(())
//! ```
//!
//! # Why
//! An attempt with a device runs tensor operators, which take microseconds at least, so the cost of one lock per
//! device does not show. A design in which threads hold memory while they wait would have to be proved free of
//! deadlocks. So a thread gives its memory back before it waits, which costs one attempt at most.

mod cancel;
mod fifo;
mod hooks;
mod ladder;
mod ledger;
mod process;
mod promise;
mod queue;
mod registry;
mod reservation;
mod sleepers;
#[cfg(test)]
mod tests;
mod turn;
mod wait;
mod waiting;

pub use cancel::Cancel;
pub use hooks::{Hooked, Pressure, on_release};
pub(crate) use hooks::{ask, is_registered};
pub use ladder::{Ladder, Rung, falls_back};
pub(crate) use promise::unpromised;
pub use promise::{Promise, promise, promised_bytes};
pub(crate) use queue::{Seen, TurnKind};
pub use reservation::{NotReserved, Reservation, reserve, reserve_async, try_reserve};
pub(crate) use turn::{Device, Measurement, Turn};
pub(crate) use waiting::{How, WaitBounds, Waiting};
