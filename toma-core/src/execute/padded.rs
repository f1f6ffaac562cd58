use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::panic::Location;

use super::by_cost::{ByCost, LeftOut, Sums, TakesLeftOut};
use super::size::length;
use super::unit::Unit;
use super::with::{Core, With};
use crate::call_site::hash_of;
use crate::classify::Failure;
use crate::clock;
use crate::engine::costs::{Padding, with_room};
use crate::observe::report::{self, Report};
use crate::outcome::{Judge, Outcome};
use crate::policy::Policy;

impl<'a, P, K, B> With<'a, P, K, B> {
    /// Counts sizes by the cost of padded batches: rows times the longest row.
    ///
    /// A batch of texts is padded to its longest text, so memory follows rows times length. A piece is as many
    /// consecutive items as cost at most the step. Items keep their order, so that one long item makes its whole piece
    /// long; [`in_buckets`](With::in_buckets) puts items of similar length together.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{GlobalCache, execute};
    ///
    /// let tokens = [4, 5, 3, 20, 6];
    /// let form = execute::with::<GlobalCache>().by_padded_cost(|text| tokens[text]);
    /// // Three rows of 5 tokens, one of 20, one of 6.
    /// assert_eq!(form.map(0..5, 20, |start, end| end - start), [3, 1, 1]);
    /// ```
    ///
    /// `length` returns the length of the item with an index, not its cost. It is called once for each item, before
    /// the first attempt. A length of 0 counts as 1. Items that do not fit by themselves are left out as with
    /// [`by_cost`](Self::by_cost).
    ///
    /// # Panics
    /// If a length is negative (the message names the item), or there is no memory for the lengths.
    #[inline]
    pub fn by_padded_cost<C: TryInto<u64>, F: FnMut(usize) -> C>(
        self,
        length: F,
    ) -> With<'a, P, K, B, ByCost<F, (), Padded>> {
        let sums = Padded { cost: u64::saturating_mul, lengths: None };
        self.counting(|_| ByCost { cost: length, report: (), sums })
    }

    /// Counts padded costs by the lengths that an attribute names.
    #[doc(hidden)]
    pub fn padded<C: TryInto<u64> + Copy + 'a>(
        self,
        lengths: &'a (impl AsRef<[C]> + ?Sized),
    ) -> With<'a, P, K, B, ByCost<impl FnMut(usize) -> C + 'a, (), Padded>> {
        let lengths = lengths.as_ref();
        let mut form = self.by_padded_cost(|item| lengths[item]);
        form.unit.sums.lengths = Some(lengths.len());
        form
    }
}

impl<P, K, B, F, T> With<'_, P, K, B, ByCost<F, T, Padded>> {
    /// Counts rows times the square of the longest length, as memory grows where attention is dense.
    #[inline]
    pub fn squared(self) -> Self {
        self.costing(|rows, longest| rows.saturating_mul(longest.saturating_mul(longest)))
    }

    /// Counts `cost(rows, longest)`, which must grow with both.
    ///
    /// The form panics if one row costs 0.
    #[inline]
    pub fn costing(mut self, cost: fn(rows: u64, longest: u64) -> u64) -> Self {
        self.unit.sums.cost = cost;
        self
    }
}

impl<'a, P, K, F, T> With<'a, P, K, (), ByCost<F, T, Padded>> {
    /// Puts items whose length has the same next power of two into one bucket: [`bucket_by`](Self::bucket_by) with
    /// [`u64::next_power_of_two`].
    #[inline]
    pub fn in_buckets(self) -> Buckets<'a, P, K, F, T> {
        self.bucket_by(|length| length.checked_next_power_of_two().unwrap_or(u64::MAX))
    }

    /// Groups items whose lengths `bucket` maps to the same number.
    ///
    /// ```
    /// # extern crate toma_core as toma;
    /// use toma::{GlobalCache, execute};
    ///
    /// let texts = ["a", "a long one", "b", "another long", "c"];
    /// let mut batches = Vec::new();
    /// let lengths = execute::with::<GlobalCache>().by_padded_cost(|text| texts[text].len()).in_buckets().map(
    ///     0..texts.len(),
    ///     64,
    ///     |items| {
    ///         batches.push(items.to_vec());
    ///         items.iter().map(|&text| texts[text].len()).collect::<Vec<_>>()
    ///     },
    /// );
    /// assert_eq!(batches, [[3, 1].as_slice(), &[0, 2, 4]]);
    /// assert_eq!(lengths, [1, 10, 1, 12, 1]);
    /// ```
    ///
    /// Values are returned in the order of the items. The form has no [`before_retry`](With::before_retry), because
    /// its body returns values and changes nothing.
    #[inline]
    pub fn bucket_by(self, bucket: fn(length: u64) -> u64) -> Buckets<'a, P, K, F, T> {
        Buckets { form: self, bucket, reports: None }
    }
}

/// Cost of pieces whose items are padded to the longest.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, execute};
///
/// let tokens = [4, 4, 2, 6];
/// let form = execute::with::<GlobalCache>().by_padded_cost(|text| tokens[text]).squared();
/// // Three rows of 4² cost 48, a fourth of 6² would make it 4 · 36.
/// assert_eq!(form.map(0..4, 64, |start, end| end - start), [3, 1]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Padded {
    cost: Padding,
    /// Number of lengths, if it is known.
    lengths: Option<usize>,
}

impl Sums for Padded {
    fn padding(&self, items: usize) -> Option<Padding> {
        let lengths = self.lengths.unwrap_or(items);
        assert!(lengths == items, "padded: {lengths} lengths for {items} items: must be as many");
        Some(self.cost)
    }

    fn counted(&self, length: u64) -> u64 {
        let length = length.max(1);
        assert!((self.cost)(1, length) > 0, "by_padded_cost: length {length} costs 0: must be at least 1");
        length
    }
}

/// A form that works on items of similar length together; ends with [`map`](Self::map).
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, execute};
///
/// let texts = ["a", "bb", "a long text"];
/// let mut reports = Vec::new();
/// let buckets = execute::with::<GlobalCache>().by_padded_cost(|text| texts[text].len()).in_buckets();
/// let lengths = buckets.reports(&mut reports).map(0..3, 64, |items| {
///     items.iter().map(|&text| texts[text].len()).collect::<Vec<_>>()
/// });
/// assert_eq!(lengths, [1, 2, 11]);
/// assert_eq!(reports.iter().map(|(bucket, _)| *bucket).collect::<Vec<_>>(), [16, 2, 1]);
/// ```
#[must_use = "nothing runs until `map` is called"]
pub struct Buckets<'a, P, K, F, T = ()> {
    form: With<'a, P, K, (), ByCost<F, T, Padded>>,
    bucket: fn(u64) -> u64,
    reports: Option<&'a mut Vec<(u64, Report)>>,
}

impl<'a, P, K, F, T> Buckets<'a, P, K, F, T> {
    /// Appends each bucket's number and the report of its call, also of one that returns an error.
    #[inline]
    pub fn reports(mut self, reports: &'a mut Vec<(u64, Report)>) -> Self {
        self.reports = Some(reports);
        self
    }
}

impl<P: Policy, C: TryInto<u64>, F: FnMut(usize) -> C, T: TakesLeftOut, K> Buckets<'_, P, K, F, T> {
    /// Collects the values of `body` for pieces of items of similar length, in the order of `range`.
    ///
    /// The body gets the indices of a piece's items, the longest first, and returns one value for each, in that order.
    /// Sizes are [padded costs](With::by_padded_cost).
    ///
    /// Each bucket is a call of its own with its own cache entry, because memory seldom grows as any one formula
    /// says. The bucket with the longest item comes first. Where one has met a limit, the next that has no cache
    /// entry begins with the size that worked there, times the ratio of their longest lengths.
    ///
    /// With [`left_out`](With::left_out) the values are a `Vec<Option<V>>`, with `None` for items that are left out.
    /// Otherwise the first such failure is passed on when the rest of its bucket is done.
    ///
    /// # Panics
    /// If the body returns more or fewer values than it got items, if there is no memory for their order, and with
    /// [`ranks`](With::ranks), because each rank would have other buckets.
    #[track_caller]
    #[inline(always)]
    pub fn map<R, S, V, M>(
        self,
        range: Range<usize>,
        initial: usize,
        mut body: impl FnMut(&[usize]) -> R,
    ) -> R::Of<T::Values<V>>
    where
        R: Outcome<S, Value = Vec<V>>,
        K: Judge<R, M>,
    {
        let (caller, begun) = (Location::caller(), clock::now());
        let Self { form: With { core, judge, undo: (), mut unit }, bucket, mut reports } = self;
        core.takes_buckets(caller, &range);
        let groups = groups(range.clone(), bucket, |index| unit.cost(index));
        let mut values = with_room(ORDER, range.len());
        values.resize_with(range.len(), || None);
        let mut met = None;
        for (bucket, items) in groups {
            let longest = items[0].0;
            let core = core.of_bucket((bucket, longest), initial, met, begun);
            let indices: Vec<_> = items.iter().map(|&(_, index)| index).collect();
            let unit = Bucket { items: &items, cost: unit.sums.cost, report: &mut unit.report };
            let form = With { core, judge: &judge, undo: (), unit };
            let keep = |piece: Range<usize>, of_piece: Vec<V>| {
                for (index, value) in indices[piece].iter().zip(of_piece) {
                    values[index - range.start] = Some(value);
                }
            };
            let done = form.bucket_at(caller, items.len(), |start, end| body(&indices[start..end]), keep);
            let report = report::last().unwrap_or_default();
            met = limit(&report, longest).or(met);
            if let Some(reports) = &mut reports {
                reports.push((bucket, report));
            }
            if let ControlFlow::Break(error) = done {
                return error;
            }
        }
        R::of(T::values(values))
    }
}

impl<P, K, F, T> fmt::Debug for Buckets<'_, P, K, F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buckets").finish_non_exhaustive()
    }
}

/// Name of the lists of all items, in panics about missing memory.
const ORDER: &str = "by_padded_cost: the order";

/// Items with their lengths, the longest first.
type Lengths = Vec<(u64, usize)>;

/// Groups items by `bucket(length)`; the group with the longest item comes first.
fn groups(
    range: Range<usize>,
    bucket: fn(u64) -> u64,
    length: impl FnMut(usize) -> u64,
) -> Vec<(u64, Lengths)> {
    let mut items = with_room(ORDER, range.len());
    items.extend(range.clone().map(length).zip(range));
    items.sort_by_key(|&(length, _)| Reverse(length));
    let (mut groups, mut places) = (Vec::<(u64, Lengths)>::new(), HashMap::new());
    for item in items {
        let bucket = bucket(item.0);
        let place = *places.entry(bucket).or_insert(groups.len());
        if place == groups.len() {
            groups.push((bucket, Vec::new()));
        }
        groups[place].1.push(item);
    }
    groups
}

/// Returns the largest size that worked in a bucket, with the longest length there, if a size has failed.
fn limit(report: &Report, longest: u64) -> Option<(usize, u64)> {
    report.bounds.smallest_failure?;
    Some((report.bounds.largest_success?, longest))
}

impl<'a, P> Core<'a, P> {
    /// # Panics
    /// If the range is backwards, or the call has ranks.
    #[track_caller]
    fn takes_buckets(&self, caller: &'static Location<'static>, range: &Range<usize>) {
        let name = || self.name_at(Some(caller));
        length(range.start, range.end, name);
        if self.options.ranks.is_some() {
            name().refuse(format_args!(
                "by_padded_cost: each rank would have other buckets: remove the option `ranks`"
            ));
        }
    }

    /// Makes the core of one bucket's call. `met`: the limit of an earlier bucket; `begun`: the form's begin.
    fn of_bucket(
        &self,
        (bucket, longest): (u64, u64),
        initial: usize,
        met: Option<(usize, u64)>,
        begun: std::time::Instant,
    ) -> Core<'a, &P> {
        let Self { cache, site, name, dim, shape, options, policy, start: _ } = self;
        let mut options = options.clone();
        options.user = hash_of((options.user, bucket));
        options.deadline =
            options.deadline.map(|deadline| deadline.saturating_sub(clock::now().duration_since(begun)));
        options.sizes.initial = Some(initial);
        options.sizes.first = met.map(|(size, of_longest)| {
            let times = usize::try_from(of_longest.div_ceil(longest)).unwrap_or(usize::MAX);
            size.saturating_mul(times)
        });
        Core {
            cache: *cache,
            site: *site,
            name: name.clone(),
            dim: *dim,
            start: 0,
            shape: *shape,
            options,
            policy,
        }
    }
}

/// Items of one bucket, the longest first.
struct Bucket<'b, T> {
    items: &'b [(u64, usize)],
    cost: Padding,
    report: &'b mut T,
}

impl<T: TakesLeftOut> Unit for Bucket<'_, T> {
    const PACKS: bool = true;

    fn cost(&mut self, place: usize) -> u64 {
        self.items[place].0
    }

    fn padding(&self, _: usize) -> Option<Padding> {
        Some(self.cost)
    }

    fn takes_left_out(&self) -> bool {
        T::TAKES
    }

    fn leave_out(&mut self, place: usize, cost: u64, failure: Failure) {
        self.report.take(LeftOut { index: self.items[place].1, cost, failure });
    }
}

impl<P: Policy, K, U: Unit> With<'_, P, K, (), U> {
    /// Passes the values of each piece, with the piece, to `keep`.
    #[inline(never)]
    fn bucket_at<R, S, V, W, M>(
        self,
        caller: &'static Location<'static>,
        items: usize,
        body: impl FnMut(usize, usize) -> R,
        mut keep: impl FnMut(Range<usize>, Vec<V>),
    ) -> ControlFlow<R::Of<W>>
    where
        R: Outcome<S, Value = Vec<V>>,
        K: Judge<R, M>,
    {
        self.pieces_at(caller, 0..items, body, |piece, values| {
            let (got, expected) = (values.len(), piece.len());
            assert!(
                got == expected,
                "by_padded_cost: {got} values for {expected} items: must be one for each"
            );
            keep(piece, values);
        })
    }
}
