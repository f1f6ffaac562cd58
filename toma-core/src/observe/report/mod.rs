//! What one call went through, for people.

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

/// What one call went through: attempts, failures, the sizes tried, what is known now, the time lost.
///
/// [`last`] gives the report of the last call that ended on this thread; its `Display` is a few
/// lines for people. In them an arrow follows an attempt that failed, so a size without a word has failed,
/// also where others of that size had worked before: `8 worked 5 times, 8 -> 4 worked once`;
/// what was tried next is a smaller size unless it says something else, such as
/// `8 -> 8 again, with the device to itself (waited 1.2s), worked 2 times`:
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
    /// Whether sizes are [costs](crate::execute::With::by_cost) instead of counts of items.
    pub sizes_are_costs: bool,
    /// The size of the first attempt; where sizes are costs, the step it was cut by.
    pub start: usize,
    /// The settled size the size cache knew, if any.
    pub remembered: Option<usize>,
    /// What was [predicted](crate::execute::With::predict), where that chose the first size.
    pub foreseen: Option<Predicted>,
    /// Why nothing was predicted, where that was asked for.
    pub unforeseen: Option<String>,
    /// Attempts made, failed ones included.
    pub attempts: usize,
    /// Attempts that ran out of memory.
    pub out_of_memory: usize,
    /// What filled the memory at the last attempt that ran out of it, in one or several lines, where a
    /// [witness](super::witness) listened that knew it.
    pub filled: Option<String>,
    /// The sizes tried, in order, the first 256 of them. Empty when nothing failed and the step never
    /// changed.
    pub tried: Vec<Tried>,
    /// The sizes known to work and to fail, by this call and by those whose evidence it found in the
    /// size cache.
    pub bounds: Bounds,
    /// The attempt that succeeded nearest to the limit, where the policy measures memory and its
    /// source counts bytes.
    pub fullest: Option<Fullest>,
    /// Time spent in all attempts. `None` when not every one was timed, which takes an observer, a
    /// deadline or a policy that measures: calls that succeed read no clock.
    pub time: Option<Duration>,
    /// Time spent in failed attempts. The first failed attempt is counted only when an observer or
    /// a deadline made the engine read the clock, because calls that succeed read none.
    pub time_lost: Duration,
    /// Whether `time_lost` counts every failed attempt.
    pub time_lost_is_exact: bool,
    /// The size remembered for the next call, when this call settled one.
    pub settled: Option<usize>,
    /// The size cache that remembers it, or that remembers nothing although there was something;
    /// `None` when there was nothing.
    pub cache: Option<&'static str>,
    /// The functions above the call, where the size is remembered for calls from there alone.
    pub callers: Callers,
    /// Why a failure went through; `None` when none did.
    pub gave_up: Option<Reason>,
    /// Items that do not fit by themselves and were left out, the first 256 of them: only calls with
    /// [costs](crate::execute::With::by_cost) go on without. They count from the start of what the
    /// call works on.
    pub left_out: Vec<usize>,
    /// Time spent waiting for others on the device.
    pub waited: Duration,
    /// Votes of this [rank](crate::ranks) after it was done, because others were not.
    pub joined: usize,
    /// Whether the rest of the call ran in [fallback](crate::device::falls_back), from some piece on.
    pub fell_back: bool,
    /// Whether a failure was injected, by the feature `testing`: then nothing is learned or remembered.
    pub injected: bool,
    /// What the smallest size lacked, when it was clear that it does not fit.
    pub shortfall: Option<Shortfall>,
}

/// A size that was said to fit before it was tried.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// In items.
    pub size: usize,
    /// Bytes that it was said to need.
    pub needs_bytes: u64,
    /// Bytes that it could have.
    pub free_bytes: u64,
}

/// How much memory the smallest size lacks.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The smallest size, in items or in cost units.
    pub size: usize,
    /// Bytes it needs, at least.
    pub needs_bytes: u64,
    /// Which of them each item adds, where that was [predicted](crate::execute::With::predict).
    pub per_item_bytes: Option<u64>,
    /// Bytes it could have.
    pub free_bytes: u64,
}

/// An attempt, and how much of the memory it took.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fullest {
    /// The attempt's size, in items or in cost units.
    pub size: usize,
    /// Most bytes it had allocated at one time beyond those before it.
    pub peak_bytes: u64,
    /// Bytes it could have allocated.
    pub available_bytes: u64,
}

impl Fullest {
    /// The part of the available bytes that it took, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share is an estimate")]
    pub fn share(&self) -> f64 {
        self.peak_bytes as f64 / self.available_bytes.max(1) as f64
    }
}

/// One entry in the history of a call: attempts at one size that succeeded, or one that failed.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Of attempts that succeeded the step in items. Where no piece need fill a step, it is the largest that ran:
    /// sizes are [costs](crate::execute::With::by_cost), or pieces are [even](crate::execute::With::evenly).
    /// Of one that failed its own size.
    pub size: usize,
    /// Attempts one after another that succeeded; 0 for one that failed.
    pub succeeded: usize,
    /// The class of its failure; `None` of those that succeeded.
    pub failed: Option<Class>,
    /// What was done about that failure; `None` without one.
    pub answer: Option<Answer>,
    /// How the attempt after it got the device, where it had to wait for its turn.
    pub wait: Option<Wait>,
    /// Time spent in all attempts of the call until then, where all of them were timed.
    pub time: Option<Duration>,
}

/// A wait for a turn on the device.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long it took.
    pub elapsed: Duration,
    /// Whether the attempt had the device to itself afterwards; otherwise the wait ended at its bound.
    pub exclusive: bool,
}
