use std::fmt;

use super::unit::Unit;
use super::with::With;
use crate::classify::Failure;
use crate::engine::costs::Padding;

impl<'a, P, K, B, U> With<'a, P, K, B, U> {
    /// Returns the form with another unit.
    #[inline]
    pub(super) fn counting<V>(self, unit: impl FnOnce(U) -> V) -> With<'a, P, K, B, V> {
        With { core: self.core, judge: self.judge, undo: self.undo, unit: unit(self.unit) }
    }
}

impl<'a, P, K, B> With<'a, P, K, B> {
    /// Counts sizes by the cost of items (tokens, bytes, atoms) instead of by items.
    ///
    /// Where items differ, memory follows their weight and not their number. A piece is then as many
    /// consecutive items as cost at most the step together. `initial`, [`min`](Self::min),
    /// [`max`](Self::max), [`multiple_of`](Self::multiple_of) and the sizes in caches, events and
    /// reports are in the same unit as `cost`, which gets an index: one of the range, or of the
    /// chunked value.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{GlobalCache, execute};
    ///
    /// let tokens = [120, 70, 30, 300, 90];
    /// let form = execute::with::<GlobalCache>().by_cost(|i| tokens[i]);
    /// let pieces = form.map(0..tokens.len(), 256, |start, end| (start, end));
    /// assert_eq!(pieces, [(0, 3), (3, 4), (4, 5)]);
    /// ```
    ///
    /// An item that costs more than the step is a piece by itself. A *single item* that runs out of memory by itself
    /// is left out, and all others are done. Then the first such failure is passed on unchanged, an error or a panic.
    /// [`left_out`](Self::left_out) takes such items instead, and
    /// [`Report::left_out`](crate::report::Report::left_out) lists them. A failure at the floor is passed on at once,
    /// because if the smallest size does not fit, no other will. One exception: a piece as heavy has succeeded since
    /// an item was left out there. A failure after a [`deadline`](Self::deadline) is passed on at once, too.
    ///
    /// With a [fallback](crate::device::Ladder::fallback) the rest of the call falls back at such an item, and only
    /// items that fail in fallback are left out. Inside an attempt that will be retried with the device to itself,
    /// the call [gives way](crate::device#loops-inside-attempts) first.
    ///
    /// Order is kept, so a heavy item among light ones leaves the piece before it half empty. Padding to the longest
    /// item of a piece costs little only among similar items: for padded batches there is
    /// [`by_padded_cost`](Self::by_padded_cost). An item costs at least 1.
    ///
    /// Until a single item that does not fit is a piece by itself, the pieces that contain it fail, too. So the first
    /// failure of a piece begins a search: the step only shrinks, and pieces end where that piece ended. If a single
    /// item of it fails by itself, the step, the settled size and the policy's measurements are restored. If all its
    /// items succeed, the piece was too large. So one item that fits nowhere costs about as many failures as the step
    /// can be halved, and the others keep their size. Where [`max_attempts`](Self::max_attempts) allows fewer
    /// attempts at a piece, the failure is passed on before the item is found.
    ///
    /// The largest cost that ran settles. Pieces that fill less than half of the step, such as a short tail, are no
    /// evidence for it.
    ///
    /// `cost` is called once for each item, before the first attempt, and the sums are kept: 16 bytes for each item. It
    /// returns an integer that is not negative, or a type of your own that converts into `u64`.
    ///
    /// # Panics
    /// If a cost is negative (the message names the item), or there is no memory for the sums. A panic of `cost` is
    /// passed on before anything has run.
    #[inline]
    pub fn by_cost<C: TryInto<u64>, F: FnMut(usize) -> C>(self, cost: F) -> With<'a, P, K, B, ByCost<F>> {
        self.counting(|_| ByCost { cost, report: (), sums: AddedUp })
    }
}

impl<'a, P, K, B, F, S> With<'a, P, K, B, ByCost<F, (), S>> {
    /// Passes each single item that does not fit by itself to `report`; the call succeeds without it.
    ///
    /// `report` runs after the failed attempt's values are dropped and undone, and its cached memory is released.
    ///
    /// In a loop inside an attempt on the same `device` an item may fail because the device is contended. If the
    /// enclosing attempt will be retried with the device to itself, the failure is passed on to it first. The item is
    /// left out only if it fails in the next attempt, too: see
    /// [loops inside attempts](crate::device#loops-inside-attempts).
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{GlobalCache, classify::OutOfMemory, execute};
    ///
    /// let tokens = [120, 70, 9000, 300, 90];
    /// let mut too_long = Vec::new();
    /// let pieces = execute::with::<GlobalCache>()
    ///     .by_cost(|i| tokens[i])
    ///     .left_out(|item| too_long.push(item))
    ///     .map(0..tokens.len(), 256, |start, end| {
    ///         let sum: u64 = tokens[start..end].iter().sum();
    ///         if sum > 1000 { Err(OutOfMemory::new(None)) } else { Ok(start..end) }
    ///     })?;
    ///
    /// assert_eq!(pieces, [0..2, 3..4, 4..5]);
    /// assert_eq!(too_long[0].to_string(), "item 2, which costs 9000: out of memory");
    /// # Ok::<(), OutOfMemory>(())
    /// ```
    #[inline]
    pub fn left_out<T: FnMut(LeftOut)>(self, report: T) -> With<'a, P, K, B, ByCost<F, T, S>> {
        self.counting(|ByCost { cost, report: (), sums }| ByCost { cost, report, sums })
    }
}

/// A single item that ran out of memory by itself, so that no smaller step could help.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, classify::OutOfMemory, execute};
///
/// let tokens = [3_u64, 900, 4];
/// let mut too_long = Vec::new();
/// let form = execute::with::<GlobalCache>().by_cost(|text| tokens[text]).left_out(|left| too_long.push(left));
/// form.range(0..3, 1000, |start, end| {
///     if tokens[start..end].iter().sum::<u64>() > 500 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// assert_eq!((too_long[0].index, too_long[0].cost), (1, 900));
/// # Ok::<(), OutOfMemory>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The index of the item, as the body would have received it.
    pub index: usize,
    /// The item's cost.
    pub cost: u64,
    /// The item's failure.
    pub failure: Failure,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}, which costs {}: {}", self.index, self.cost, self.failure.message)
    }
}

/// Unit of sizes that count costs.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, execute};
///
/// let tokens = [3_u64, 5, 2, 9];
/// let form = execute::with::<GlobalCache>().by_cost(|text| tokens[text]); // a step counts tokens
/// assert_eq!(form.map(0..4, 10, |start, end| end - start), [3, 1]);
/// ```
#[derive(Clone, Copy)]
pub struct ByCost<F, T = (), S = AddedUp> {
    pub(super) cost: F,
    pub(super) report: T,
    pub(super) sums: S,
}

/// Rule that combines the costs of a piece's items.
pub trait Sums {
    /// Returns the padding of this many items, if they are padded.
    ///
    /// # Panics
    /// If there are not as many items as lengths.
    fn padding(&self, items: usize) -> Option<Padding>;

    /// Returns the cost or length of an item as it counts.
    ///
    /// # Panics
    /// If a length costs nothing.
    fn counted(&self, cost: u64) -> u64 {
        cost
    }
}

/// Costs are added up.
#[derive(Clone, Copy, Debug)]
pub struct AddedUp;

impl Sums for AddedUp {
    fn padding(&self, _: usize) -> Option<Padding> {
        None
    }
}

impl<C: TryInto<u64>, F: FnMut(usize) -> C, T: TakesLeftOut, S: Sums> Unit for ByCost<F, T, S> {
    const PACKS: bool = true;

    fn cost(&mut self, index: usize) -> u64 {
        let cost = (self.cost)(index).try_into().ok();
        self.sums.counted(cost.unwrap_or_else(|| panic!("cost of item {index}: must be from 0 to 2^64 - 1")))
    }

    fn padding(&self, items: usize) -> Option<Padding> {
        self.sums.padding(items)
    }

    fn takes_left_out(&self) -> bool {
        T::TAKES
    }

    fn leave_out(&mut self, index: usize, cost: u64, failure: Failure) {
        self.report.take(LeftOut { index, cost, failure });
    }
}

impl<F, T, S> fmt::Debug for ByCost<F, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ByCost").finish_non_exhaustive()
    }
}

/// Takes items that are left out; `()` takes none.
pub trait TakesLeftOut {
    /// True if it takes any.
    const TAKES: bool;

    /// Values of all items; items that are left out have none.
    type Values<V>;

    /// Takes an item.
    fn take(&mut self, item: LeftOut);

    /// The values of all items.
    fn values<V>(values: Vec<Option<V>>) -> Self::Values<V>;
}

impl TakesLeftOut for () {
    type Values<V> = Vec<V>;
    const TAKES: bool = false;

    fn take(&mut self, _: LeftOut) {}

    fn values<V>(values: Vec<Option<V>>) -> Vec<V> {
        values.into_iter().map(|value| value.expect("a call that leaves items out has failed")).collect()
    }
}

impl<T: FnMut(LeftOut)> TakesLeftOut for T {
    type Values<V> = Vec<Option<V>>;
    const TAKES: bool = true;

    fn take(&mut self, item: LeftOut) {
        self(item);
    }

    fn values<V>(values: Vec<Option<V>>) -> Vec<Option<V>> {
        values
    }
}
