//! The report of one call, for people.

mod builder;
#[cfg(feature = "svg")]
mod svg;
mod text;

use std::time::Duration;

use super::{Answer, Reason};
use crate::call_site::Name;
use crate::classify::Class;
use crate::policy::Bounds;
use crate::stack::Callers;

pub use builder::last;
pub(crate) use builder::{ReportBuilder, prepare};
#[cfg(feature = "svg")]
pub use svg::svg;

/// Report of one call: attempts, failures, the sizes tried, the bounds learned, the time lost.
///
/// [`last`] returns the report of the last call that ended on this thread; its `Display` is a few lines for people. In
/// them an arrow follows an attempt that failed, so a size without a word has failed, even if other attempts of that
/// size had worked before: `8 worked 5 times, 8 -> 4 worked once`. The size after an arrow is smaller unless the text
/// says something else, such as `8 -> 8 again, with the device to itself (waited 1.2s), worked 2 times`:
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{GlobalCache, classify::OutOfMemory, execute, report};
///
/// let cache = GlobalCache::new();
/// let body = |start, end| if end - start > 128 { Err(OutOfMemory::new(None)) } else { Ok(()) };
/// execute::with::<GlobalCache>().cache(&cache).name("work").range(0..5000, 512, body)?;
/// let shown = report::last().unwrap().to_string();
/// # let shown: String =
/// #     shown.lines().filter(|line| !line.starts_with("  lost")).map(|line| format!("{line}\n")).collect();
/// # assert_eq!(shown, "\
/// # work: 5000 items in 42 attempts, 2 out of memory
/// #   started  at 512, nothing was remembered
/// #   tried    512 -> 256 -> 128 worked 40 times
/// #   learned  128 works, 256 does not; 128 is at least 50 % of the limit
/// #   next     starts from 128, remembered in GlobalCache
/// # ");
/// # Ok::<(), OutOfMemory>(())
/// ```
///
/// ```text
/// work: 5000 items in 42 attempts, 2 out of memory
///   started  at 512, nothing was remembered
///   tried    512 -> 256 -> 128 worked 40 times
///   learned  128 works, 256 does not; 128 is at least 50 % of the limit
///   lost     at least 1.2ms in attempts that failed
///   next     starts from 128, remembered in GlobalCache
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
pub struct Report {
    /// The name of the call.
    pub name: Name,
    /// Items in the whole call; `None` for a batch.
    pub length: Option<usize>,
    /// Items done.
    pub done: usize,
    /// True if sizes are [costs](crate::execute::With::by_cost) instead of counts of items.
    pub sizes_are_costs: bool,
    /// The size of the first attempt; if sizes are costs, the step by which it was cut.
    pub start: usize,
    /// The settled size found in the size cache, if any.
    pub remembered: Option<usize>,
    /// The [prediction](crate::execute::With::predict), if it chose the first size.
    pub predicted: Option<Predicted>,
    /// The reason why nothing was predicted although the call requested a prediction.
    pub unpredicted: Option<String>,
    /// Attempts made, failed ones included.
    pub attempts: usize,
    /// Attempts that ran out of memory.
    pub out_of_memory: usize,
    /// The allocations that filled the memory at the last attempt that ran out of it, in one or several lines, if a
    /// [witness](super::witness) listened and knew them.
    pub filled: Option<String>,
    /// The sizes tried, in order, the first 256 of them. Empty when nothing failed and the step never
    /// changed.
    pub tried: Vec<Tried>,
    /// The sizes known to work and to fail, from this call and from earlier calls whose evidence was in the size cache.
    pub bounds: Bounds,
    /// The attempt that succeeded nearest to the limit, if the policy measures memory and the memory source counts
    /// bytes.
    pub fullest: Option<Fullest>,
    /// Time spent in all attempts. `None` unless every attempt was timed, which takes an observer, a deadline or a
    /// policy that measures: calls that succeed read no clock.
    pub time: Option<Duration>,
    /// Time spent in failed attempts. The first failed attempt is counted only when an observer or
    /// a deadline made the engine read the clock, because calls that succeed read none.
    pub time_lost: Duration,
    /// True if `time_lost` counts every failed attempt.
    pub time_lost_is_exact: bool,
    /// The size that settled, if one did.
    pub settled: Option<usize>,
    /// True if that size is remembered for the next call, which [`NoCache`](crate::NoCache) never does.
    pub is_remembered: bool,
    /// The size cache that was given the size; `None` if none settled.
    pub cache: Option<&'static str>,
    /// The callers, if the size is remembered only for calls from there; otherwise empty.
    pub callers: Callers,
    /// The reason why a failure was returned to the caller; `None` when none was.
    pub gave_up: Option<Reason>,
    /// Items that do not fit by themselves and were left out, the first 256 of them, as positions from the start of the
    /// call's range. Only calls with [costs](crate::execute::With::by_cost) leave items out.
    pub left_out: Vec<usize>,
    /// Time spent waiting for others on the device.
    pub waited: Duration,
    /// Number of votes that this [rank](crate::ranks) cast after it was done, because other ranks were not.
    pub joined: usize,
    /// True if the rest of the call ran in [fallback](crate::device::falls_back), from some piece on.
    pub fell_back: bool,
    /// True if a failure was injected by the feature `testing`. Nothing is learned or remembered then.
    pub injected: bool,
    /// The memory that the smallest size lacked, when it was clear that it does not fit.
    pub shortfall: Option<Shortfall>,
}

/// A size that was predicted to fit before it was tried.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::report;
///
/// if let Some(predicted) = report::last().and_then(|report| report.predicted) {
///     println!("began at {} items, for {} bytes", predicted.size, predicted.needs_bytes);
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// The size, in items.
    pub size: usize,
    /// Bytes that it was predicted to need.
    pub needs_bytes: u64,
    /// Bytes available to it.
    pub free_bytes: u64,
}

/// The memory that the smallest size lacks.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::report::Shortfall;
///
/// /// The memory to ask for.
/// fn lacking_bytes(shortfall: &Shortfall) -> u64 {
///     shortfall.needs_bytes.saturating_sub(shortfall.free_bytes)
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The smallest size, in items or in cost units.
    pub size: usize,
    /// Bytes it needs, at least.
    pub needs_bytes: u64,
    /// The part of `needs_bytes` that each item adds, if it was [predicted](crate::execute::With::predict).
    pub per_item_bytes: Option<u64>,
    /// Bytes available to it.
    pub free_bytes: u64,
}

/// An attempt and the part of the available memory that it used.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::report;
///
/// if let Some(fullest) = report::last().and_then(|report| report.fullest) {
///     println!("{} items used {:.0} % of the memory", fullest.size, 100.0 * fullest.share());
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fullest {
    /// The attempt's size, in items or in cost units.
    pub size: usize,
    /// The most bytes it had allocated at one time, beyond those allocated before it.
    pub peak_bytes: u64,
    /// Bytes it could have allocated.
    pub available_bytes: u64,
}

impl Fullest {
    /// Returns the used part of the available bytes, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share is an estimate")]
    pub fn share(&self) -> f64 {
        self.peak_bytes as f64 / self.available_bytes.max(1) as f64
    }
}

/// One entry in the history of a call: attempts at one size that succeeded, or one that failed.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::{NoCache, classify::OutOfMemory, execute, report};
///
/// execute::with::<NoCache>().range(0..64, 32, |start, end| {
///     if end - start > 16 { Err(OutOfMemory::new(None)) } else { Ok(()) }
/// })?;
/// let tried: Vec<_> = report::last().unwrap().tried.iter().map(|tried| (tried.size, tried.succeeded)).collect();
/// assert_eq!(tried, [(32, 0), (16, 4)]);
/// # Ok::<(), OutOfMemory>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// For attempts that succeeded, the step in items, or the largest size that ran if pieces need not fill a step: if
    /// sizes are [costs](crate::execute::With::by_cost) or pieces are [even](crate::execute::With::evenly). For an
    /// attempt that failed, its own size.
    pub size: usize,
    /// Number of consecutive attempts that succeeded; 0 for one that failed.
    pub succeeded: usize,
    /// The class of the failure; `None` for attempts that succeeded.
    pub failed: Option<Class>,
    /// The answer to the failure; `None` without one.
    pub answer: Option<Answer>,
    /// The wait of the next attempt for its turn on the device, if it had to wait.
    pub wait: Option<Wait>,
    /// Time spent in all attempts of the call up to the end of this entry, if all of them were timed.
    pub time: Option<Duration>,
}

/// A wait for a turn on the device.
///
/// ```
/// # extern crate toma_core as toma;
/// use toma::report;
///
/// for wait in report::last().iter().flat_map(|report| report.tried.iter().filter_map(|tried| tried.wait)) {
///     println!("{wait:?}");
/// }
/// ```
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Duration of the wait.
    pub elapsed: Duration,
    /// True if the attempt had the device to itself afterwards; otherwise the wait ended at its time limit.
    pub exclusive: bool,
}
