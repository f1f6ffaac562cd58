//! Devices that threads and tasks share: turns, retries at the same size, and bytes that are kept.
//!
//! Work that fits a device by itself need not fit beside other work. Shrinking would then learn a size that
//! is too small once the other work is gone. So attempts of calls with the option `device` take *turns*. An
//! attempt that runs out of memory under contention is repeated at the same size, with the device to itself.
//!
//! | for | see |
//! |---|---|
//! | which retries a call makes before it shrinks | [`Ladder`] |
//! | giving memory back when a call runs out of it | [`on_release`] |
//! | bytes that are known beforehand, kept until they are used | [`reserve`], [`try_reserve`], [`reserve_async`] |
//! | bytes that work will allocate, and that others take for free until then | [`promise()`], [`promised_bytes`] |
//! | ending the waits and retries of calls from outside | [`Cancel`] |
//!
//! # The ladder
//! An attempt that ran out of memory climbs a ladder. Each rung that is there gives it one more attempt at
//! the same size:
//!
//! 1. **Release.** Cached memory was released, as after every failure; the same size again. Off, because
//!    libtorch's allocator has done that before it raises an error; for memory sources that do not.
//! 2. **Exclusive.** There was contention: wait for an exclusive turn, and try the same size again. On, for
//!    at most 10 seconds each time.
//! 3. **Leaner.** Ask what the attempt has [offered](crate::leaner) for a leaner plan. On, where there is an offer.
//! 4. **Hooks.** Ask the [registered](on_release) hooks to give memory back. On, where there are any.
//! 5. **Smaller.** What the policy says. A new size has new rungs, but for leaner plans and the hooks: they are
//!    asked once per piece.
//! 6. **Fallback.** When nothing smaller is left: the first size again, and the body uses what memory
//!    it likes where [`falls_back`] says so. Off. The rest of the call goes there, also after a single item
//!    that fails where sizes are [costs](crate::execute::With::by_cost).
//! 7. **Give up.** The body's own failure goes through.
//!
//! `max_attempts` counts all of these attempts. What succeeds on one of the first four rungs settles
//! nothing: the size was never too large.
//!
//! # Turns
//! Each attempt holds a turn on its device from its beginning to its end:
//!
//! | an attempt | takes |
//! |---|---|
//! | of a call without `device`, or in fallback | no turn; loops inside it are not nested |
//! | inside an attempt that holds a turn on the same device | no turn of its own |
//! | inside an attempt that holds a turn on another device | a shared turn, at once |
//! | whose call does not wait | a shared turn, at once |
//! | after a failure under contention | an exclusive turn, when no other turn runs |
//! | otherwise | a shared turn, when none is exclusive and nothing waits |
//!
//! - *Contention*: other turns ran when the attempt began, run now, or have begun since.
//! - Attempts that wait are served in the order in which they came. While any waits, new ones queue behind
//!   it. Neighbors in the queue that want shared turns begin together.
//! - A failed attempt is undone and cached memory is released before the attempt waits, so it holds nothing.
//! - An exclusive turn lasts until its piece is done or given up, smaller sizes included. After it the call
//!   asks for exclusive turns for its next 1, 2, 4 .. 64 pieces, each at the tail of the queue.
//! - Attempts that never wait may begin beside an exclusive one. It has contention then, and repeats its
//!   size once.
//! - Loops in hooks and observers hold the turn that their call keeps meanwhile. Neither they nor [`reserve`] wait
//!   while an observer is told that the call [waits](crate::observe::EventKind::Waits).
//! - Nothing that holds a turn waits, neither for a turn nor for bytes: [`reserve`] answers as
//!   [`try_reserve`] there. So no two calls wait for each other, on whatever devices. A loop that blocks
//!   inside an asynchronous attempt does not wait either: the executor may need its thread. A wait that began
//!   outside ends once an attempt that holds a turn polls it.
//! - Every wait ends by its [bound](Ladder::wait), the call's deadline or [`Cancel`]. One attempt beside the
//!   others follows, without the promise of another retry. A wait past its bound holds up no other,
//!   even if its task is never polled. A turn that was granted and not taken up by then goes to the next.
//! - After a wait that lasted its full bound the device is not waited for, for ten times as long or until
//!   the attempts that ran then have ended.
//! - Devices are told apart by the [name](crate::memory::MemorySource::name) of the memory source.
//! - An iterator holds no turn between two values. A stream that is left in the middle of an attempt keeps
//!   its turn, as it keeps its memory.
//! - A child of `fork` starts with no turns, waits or reservations.
//!
//! Memory that is held between attempts, such as the weights of a model, is not waited for.
//!
//! # Loops inside attempts
//! Say two threads hold 40 of 100 bytes each, and each needs 50 more in a loop inside. Neither gets them. An
//! attempt that would be repeated exclusively promises that before it begins. Under a promise on its
//! device, a loop inside *gives way* at its first failure under contention, for the reason
//! [`GaveWay`](crate::observe::Reason::GaveWay), before it leaves items out or falls back. The outermost
//! attempt then counts as failed whatever its body returned: it gives its 40 bytes back, and is repeated
//! exclusively. So on one device every call succeeds whose work fits by itself.
//!
//! Without a promise, or in an exclusive turn, a loop inside shrinks as ever. There is no promise if the
//! attempt around would not wait: by its ladder, `max_attempts`, deadline or [`Cancel`], because a wait was
//! lately in vain, or without `device`.
//!
//! # What to expect
//! - An outer attempt is repeated where a wait of the loop inside might have sufficed. Allocate as late as
//!   possible.
//! - Threads or tasks that a body starts and joins are not nested in its attempt. Loops in them may wait for
//!   it until the bound, in each attempt anew: give them a [`Ladder`]
//!   [`without_waiting`](Ladder::without_waiting).
//! - Loops that a body runs at the same time, as with `join!`, shrink each other.
//! - A loop inside on a second device shrinks under contention instead of waiting.
//! - A thread that waits is parked and polls nothing. In a program with tasks, use asynchronous bodies.
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
//! An attempt with a device runs tensor operators, microseconds at least, so one lock per device is not
//! noticed. What a thread holds while it waits would have to be argued about: so nothing that holds
//! memory waits. A thread that would, gives its memory back first, which costs an attempt at most.

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
