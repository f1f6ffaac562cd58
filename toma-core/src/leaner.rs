//! Leaner plans: the same size again in fewer bytes, at the price of time.
//!
//! Some work can be done in fewer bytes by recomputing a part of it: gradient checkpointing drops activations that a
//! backward needs and computes them again. The choice of the recomputed part is the *plan* of such work. A body knows
//! its plans, the engine knows when memory has run out. So the body [offers](offer) a handle while its attempt runs.
//! After an attempt has run out of memory, the engine calls the handle's [`lean`](Lean::lean), and tries the same size
//! once more: the rung [`Leaner`](crate::device::Rung::Leaner) of the [ladder](crate::device), once per piece. If it
//! still does not fit, the size shrinks.
//!
//! ```
//! # extern crate toma_core as toma;
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//!
//! use toma::leaner::{self, Lean};
//! use toma::{NoCache, classify::OutOfMemory, execute};
//!
//! /// Needs 10, 6 or 3 bytes an item.
//! #[derive(Default)]
//! struct Plans(AtomicU64);
//!
//! impl Lean for Plans {
//!     fn lean(&self) -> bool {
//!         self.0.fetch_update(Relaxed, Relaxed, |plan| (plan < 2).then_some(plan + 1)).is_ok()
//!     }
//! }
//!
//! let plans = Arc::new(Plans::default());
//! let size = execute::with::<NoCache>().batch(8, |batch_size| {
//!     leaner::offer(plans.clone());
//!     let needs_bytes = batch_size * [10, 6, 3][plans.0.load(Relaxed) as usize];
//!     if needs_bytes > 50 { Err(OutOfMemory::new(None)) } else { Ok(batch_size) }
//! })?;
//! assert_eq!((size, plans.0.load(Relaxed)), (8, 1));
//! # Ok::<(), OutOfMemory>(())
//! ```
//!
//! # Which plan, and which size
//! Both depend on the meaning of the body's values. A batch is one value of one size: any plan is better than a
//! smaller batch. Pieces give the same result at any size, so the faster way per item counts. For that the body reports
//! the time that it has [`repeated`]. [`Adaptive`](crate::Adaptive) and [`Throughput`](crate::Throughput) then do not
//! grow into sizes that have to recompute, and leave them if smaller sizes are faster. A body whose pieces must keep
//! their size as batches do calls [`keep_size`].
//!
//! # Which attempt is meant
//! All functions apply to the innermost attempt that runs on the thread, or in the task that it polls. Outside of
//! attempts, in dry runs and in threads that a body starts they do nothing. Handles and reports end with their attempt.

mod left;
mod sites;

use std::sync::Arc;
use std::time::Duration;

pub use self::left::Lean;
pub(crate) use self::left::{Action, Left, is_kept, take};
pub(crate) use self::sites::{has_offered, offers};

/// Offers a handle for the running attempt, to be used if the attempt runs out of memory.
///
/// Of several handles the last one is called first, and the first that returns true suffices. Handles are dropped once
/// the attempt succeeds, or the rung is skipped.
///
/// A panic is retried only if a retry was promised before the attempt. While smaller sizes are left it always is. At
/// the floor it is once an earlier attempt of the same call site has offered a handle.
///
/// ```
/// # extern crate toma_core as toma;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
/// use toma::leaner::{self, Lean};
/// use toma::{NoCache, classify::OutOfMemory, execute};
///
/// #[derive(Default)]
/// struct Recompute(AtomicBool);
///
/// impl Lean for Recompute {
///     fn lean(&self) -> bool {
///         !self.0.swap(true, Relaxed)
///     }
/// }
///
/// let recompute = Arc::new(Recompute::default());
/// let size = execute::with::<NoCache>().batch(8, |size| {
///     leaner::offer(recompute.clone());
///     if recompute.0.load(Relaxed) { Ok(size) } else { Err(OutOfMemory::new(None)) }
/// })?;
/// assert_eq!(size, 8);
/// # Ok::<(), OutOfMemory>(())
/// ```
pub fn offer(handle: Arc<dyn Lean>) {
    left::with(|left| left.offers.push(handle));
}

/// Reports the time that the body has just spent on recomputing; summed over the attempt.
///
/// Policies receive it as [`Evidence::repeated`](crate::policy::Evidence::repeated).
///
/// ```
/// # extern crate toma_core as toma;
/// use std::time::Instant;
/// use toma::{NoCache, execute, leaner};
/// # fn recompute(_: std::ops::Range<usize>) {}
///
/// execute::with::<NoCache>().range(0..8, 4, |start, end| {
///     let begun = Instant::now();
///     recompute(start..end);
///     leaner::repeated(begun.elapsed());
/// });
/// ```
pub fn repeated(time: Duration) {
    left::with(|left| left.repeated = left.repeated.saturating_add(time));
}

/// Treats the piece of the running attempt as a batch: policies grow into sizes that have to recompute, and stay there.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{NoCache, execute, leaner};
/// # fn normalize(_: std::ops::Range<usize>) {}
///
/// execute::with::<NoCache>().range(0..64, 32, |start, end| {
///     leaner::keep_size(); // the statistics of a batch depend on its size
///     normalize(start..end);
/// });
/// ```
pub fn keep_size() {
    left::with(|left| left.keeps_size = true);
}

/// Adds an action for the end of the running attempt, to be run if the attempt counts.
pub(crate) fn when_agreed(action: Action) {
    left::with(|left| left.when_agreed.push(action));
}
