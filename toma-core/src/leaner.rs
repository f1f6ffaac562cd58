//! Leaner plans: the same size again in fewer bytes, at the price of time.
//!
//! Some work can be done in fewer bytes by repeating a part of it: gradient checkpointing drops what a backward needs
//! and makes it again. Which part is repeated is such work's *plan*. A body knows its plans, the engine knows when memory
//! has run out. So the body [offers](offer) a handle while its attempt runs. After a failure for want of memory the
//! engine asks the handle to [`lean`](Lean::lean), and tries the same size once more: the rung
//! [`Leaner`](crate::device::Rung::Leaner) of the [ladder](crate::device), once per piece. What does not fit then is
//! made smaller.
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
//! What the body's values mean decides it, and [`wanted`] says so. A batch is one value of one size: any plan is better
//! than a smaller batch. Pieces give the same result at any size, so there the faster way per item counts. For that the
//! body tells how long it has [`repeated`]. [`Adaptive`](crate::Adaptive) and
//! [`Throughput`](crate::Throughput) then do not grow into sizes that have to repeat, and leave them where smaller
//! ones are faster. A body whose pieces are worth as much as batches says [`keep_size`].
//!
//! # Whose it is
//! All functions speak of the innermost attempt that runs on the thread, or in the task that it polls. Outside of
//! attempts, in dry runs and in threads that a body starts they do nothing. What a body leaves ends with its attempt.

mod left;
mod sites;

use std::sync::Arc;
use std::time::Duration;

pub use self::left::Lean;
pub(crate) use self::left::{Action, Left, is_kept, take};
pub(crate) use self::sites::{has_offered, offers};
use crate::shield;

/// What is wanted of the attempt that runs, where its work does not fit as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A leaner plan, while any fits: a batch keeps its size. Also outside of attempts, where nothing shrinks.
    KeepsSize,
    /// The faster way per item: pieces may shrink.
    MayShrink,
}

/// What is wanted of the attempt that runs: of the innermost one, by its form.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::leaner::{Wanted, wanted};
/// use toma::{NoCache, execute};
///
/// assert_eq!(wanted(), Wanted::KeepsSize);
/// execute::with::<NoCache>().range(0..8, 4, |_, _| assert_eq!(wanted(), Wanted::MayShrink));
/// execute::with::<NoCache>().batch(8, |_| assert_eq!(wanted(), Wanted::KeepsSize));
/// ```
pub fn wanted() -> Wanted {
    if shield::inside().is_piece() { Wanted::MayShrink } else { Wanted::KeepsSize }
}

/// Leaves a handle for the attempt that runs, to be asked if it runs out of memory.
///
/// Of several handles the one that was left last is asked first, and the first that answers true suffices. They are
/// dropped once the attempt succeeds, or the rung is passed over.
///
/// A panic is tried again only where that was promised before the attempt. While smaller sizes are left it always is. At
/// the floor it is from the second attempt on that a call site makes after one has offered anything.
pub fn offer(handle: Arc<dyn Lean>) {
    left::with(|left| left.offers.push(handle));
}

/// Tells how long the body has just spent on repeating; summed over the attempt.
///
/// Policies see it as [`Evidence::repeated`](crate::policy::Evidence::repeated).
pub fn repeated(time: Duration) {
    left::with(|left| left.repeated = left.repeated.saturating_add(time));
}

/// Treats the piece of the attempt that runs as a batch: policies grow into sizes that have to repeat, and stay there.
pub fn keep_size() {
    left::with(|left| left.keeps_size = true);
}

/// Leaves an action for the end of the attempt that runs, and counts.
pub(crate) fn when_agreed(action: Action) {
    left::with(|left| left.when_agreed.push(action));
}
