//! Inline forms: a closure, run piece by piece with sizes that adapt to the memory there is.
//!
//! | form | the body gets | and returns |
//! |---|---|---|
//! | [`batch`] | a batch size | anything; it is returned |
//! | [`range`] | `start, end` | `()` or `Result<(), E>` |
//! | [`chunked`] | a chunk, `start, end` | `()` or `Result<(), E>` |
//! | [`map`] | `start, end` | a value, collected in order |
//! | [`fold`] | the value so far, `start, end` | the next value |
//! | [`Buckets::map`], of items of similar length | their indices | a value for each, collected in order |
//! | [`With::iter`] | `start, end` | a value, given out when it is requested |
//! | [`With::stream`] | `start, end`, asynchronously | the same |
//!
//! These use the default cache and options; [`with()`] makes everything selectable, including sizes that count
//! [costs](With::by_cost) instead of items.
//!
//! The body may run more than once for the same items: an attempt that runs out of memory is dropped and made again
//! with a smaller step. Write results to their place (`out[start..end]`) rather than appending them, or undo a failed
//! attempt with [`before_retry`](With::before_retry).
//!
//! # Panics
//! All forms panic if a size is 0, or if a range ends before it starts, with the name of the call, and the names and
//! values. A panic of the body itself is passed on unchanged, unless it says that memory ran out and a smaller size
//! is left to try.

#![expect(clippy::inline_always, reason = "the number of our own frames must not depend on the optimizer")]

mod by_cost;
mod dry;
mod forms;
mod iter;
mod padded;
mod size;
mod stream;
mod undo;
mod unit;
mod with;

use std::ops::Range;
use std::panic::Location;

pub use by_cost::{ByCost, LeftOut};
pub use padded::{Buckets, Padded};
#[doc(hidden)]
pub use size::Size;
pub(crate) use size::length;
pub use stream::Stream;
pub(crate) use undo::LacksView;
#[doc(hidden)]
pub use undo::Undo;
#[doc(hidden)]
pub use unit::{EvenItems, Items, Unit};
pub use with::With;

use crate::cache::{DefaultCache, SizeCache};
use crate::chunk::{Chunk, Chunked};
use crate::outcome::{Auto, Completes, Judge, Outcome};
use crate::policy::Halve;

/// Starts an inline form with a cache and options of your choice.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{Bisect, GlobalCache, execute};
///
/// let mut done = 0;
/// execute::with::<GlobalCache>().policy(Bisect::default()).multiple_of(8).range(0..100, 32, |start, end| {
///     done += end - start;
/// });
/// assert_eq!(done, 100);
/// ```
#[inline]
pub fn with<C: SizeCache + 'static>() -> With<'static, Halve, Auto, ()> {
    With::new(C::shared(), None)
}

/// Runs `body` with a batch size of `initial` items, or less when memory runs out, and returns its result.
///
/// ```
/// # extern crate toma_core as toma;
/// let sum = toma::execute::batch(512, |batch_size| (0..batch_size).sum::<usize>());
/// assert_eq!(sum, 512 * 511 / 2);
/// ```
#[track_caller]
#[inline(always)]
pub fn batch<R, M>(initial: usize, body: impl FnMut(usize) -> R) -> R
where
    Auto: Judge<R, M>,
{
    with::<DefaultCache>().initial(initial).batch_at(Location::caller(), body)
}

/// Runs `body` on consecutive pieces of `range`, of at most `initial` items each.
///
/// ```
/// # extern crate toma_core as toma;
/// let mut squares = vec![0; 10];
/// toma::execute::range(0..10, 4, |start, end| {
///     for i in start..end {
///         squares[i] = i * i;
///     }
/// });
/// assert_eq!(squares[9], 81);
/// ```
#[track_caller]
#[inline(always)]
pub fn range<R, M>(range: Range<usize>, initial: usize, body: impl FnMut(usize, usize) -> R) -> R
where
    R: Completes,
    Auto: Judge<R, M>,
{
    with::<DefaultCache>().initial(initial).range_at(Location::caller(), (range.start, range.end), body)
}

/// Runs `body` on consecutive chunks of `data`, of at most `initial` items each; `start` and `end` are the chunk's
/// position in the whole.
///
/// ```
/// # extern crate toma_core as toma;
/// let mut data = [1.0; 10];
/// toma::execute::chunked(&mut data[..], 4, |chunk, _start, _end| chunk.fill(2.0));
/// assert_eq!(data, [2.0; 10]);
/// ```
#[track_caller]
#[inline(always)]
pub fn chunked<D, K, R, M>(data: D, initial: usize, body: impl FnMut(Chunk<'_, D, K>, usize, usize) -> R) -> R
where
    D: Chunked<K>,
    R: Completes,
    Auto: Judge<R, M>,
{
    with::<DefaultCache>().initial(initial).chunked_at(Location::caller(), data, body)
}

/// Collects the values of `body` for consecutive pieces of `range`, in order, each piece once.
///
/// ```
/// # extern crate toma_core as toma;
/// let sizes = toma::execute::map(0..10, 4, |start, end| end - start);
/// assert_eq!(sizes, [4, 4, 2]);
/// ```
#[track_caller]
#[inline(always)]
pub fn map<R, S, M>(
    range: Range<usize>,
    initial: usize,
    body: impl FnMut(usize, usize) -> R,
) -> R::Of<Vec<R::Value>>
where
    R: Outcome<S>,
    Auto: Judge<R, M>,
{
    with::<DefaultCache>().initial(initial).map_at(Location::caller(), range, body)
}

/// Reduces consecutive pieces of `range`: the body gets the value so far and returns the next.
///
/// The value so far is borrowed, so a failed attempt cannot have changed it.
///
/// ```
/// # extern crate toma_core as toma;
/// let sum = toma::execute::fold(0..10, 4, 0_usize, |sum, start, end| sum + (start..end).sum::<usize>());
/// assert_eq!(sum, 45);
/// ```
#[track_caller]
#[inline(always)]
pub fn fold<A, R, S, M>(
    range: Range<usize>,
    initial: usize,
    init: A,
    body: impl FnMut(&A, usize, usize) -> R,
) -> R::Of<A>
where
    R: Outcome<S, Value = A>,
    Auto: Judge<R, M>,
{
    with::<DefaultCache>().initial(initial).fold_at(Location::caller(), range, init, body)
}
