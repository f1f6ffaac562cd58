//! What one call went through, for people.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use super::{Reason, bytes};
use crate::cache::Origin;
use crate::classify::Class;
use crate::engine::tally;

/// What one call went through: attempts, failures, the sizes tried, the time lost.
///
/// [`last`] gives the report of the last call that ended on this thread; its `Display` is a few
/// lines for people.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the call.
    pub name: Name,
    /// Items in the whole call; `None` for a batch.
    pub length: Option<usize>,
    /// Items done.
    pub done: usize,
    /// The size the first attempt started with.
    pub start: usize,
    /// The settled size the size cache knew, if any.
    pub remembered: Option<usize>,
    /// Attempts made, failed ones included.
    pub attempts: usize,
    /// Attempts that ran out of memory.
    pub out_of_memory: usize,
    /// The sizes tried, in order, the first 256 of them. Empty when nothing failed and the step never
    /// changed.
    pub tried: Vec<Tried>,
    /// Time spent in failed attempts. The first failed attempt is counted only when an observer or
    /// a deadline made the engine read the clock, because calls that succeed read none.
    pub time_lost: Duration,
    /// Whether `time_lost` counts every failed attempt.
    pub time_lost_is_exact: bool,
    /// The size remembered for the next call, when this call settled one.
    pub settled: Option<usize>,
    /// Why the call gave up; `None` when all was done.
    pub gave_up: Option<Reason>,
    /// Items that failed alone and were left out, the first 256 of them: only calls with
    /// [costs](crate::execute::With::by_cost) go on without. They count from the start of what the
    /// call works on.
    pub set_aside: Vec<usize>,
    /// Time spent waiting for others on the device.
    pub waited: Duration,
    /// Whether the work went on in [another memory](crate::ladder::falls_back).
    pub fell_back: bool,
    /// What the smallest size lacked, when it was clear that it does not fit.
    pub shortfall: Option<Shortfall>,
}

/// How much memory the smallest size lacks.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The smallest size, in items.
    pub size: usize,
    /// Bytes it needs, at least.
    pub needs_bytes: u64,
    /// Bytes it could have.
    pub free_bytes: u64,
}

/// One size in the history of a call.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The step in items, or in cost units.
    pub size: usize,
    /// Attempts at this size that succeeded.
    pub succeeded: usize,
    /// The class of the failure that ended it; `None` when none did.
    pub failed: Option<Class>,
}

/// The name of a call: a function's path, a given name, or the line of an inline form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub(crate) NameKind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    Given(Cow<'static, str>),
    Line(&'static Location<'static>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            NameKind::Given(name) => f.write_str(name),
            NameKind::Line(line) => write!(f, "{}:{}", line.file(), line.line()),
        }
    }
}

impl Name {
    /// The name given, or what is known of where the call comes from.
    #[inline]
    pub(crate) fn of(given: Option<Cow<'static, str>>, origin: &Origin) -> Self {
        Self(match (given, origin.site, origin.caller) {
            (Some(name), ..) => NameKind::Given(name),
            (None, Some(site), _) => NameKind::Given(Cow::Borrowed(site.name())),
            (None, None, Some(caller)) => NameKind::Line(caller),
            (None, None, None) => NameKind::Given(Cow::Borrowed("unnamed")),
        })
    }
}

impl Default for Name {
    fn default() -> Self {
        Self(NameKind::Given(Cow::Borrowed("")))
    }
}

/// The report of the last call that ended on this thread.
///
/// ```
/// # extern crate toma_core as toma;
/// toma::execute::range(0..10, 4, |_start, _end| ());
/// let report = toma::report::last().unwrap();
/// assert_eq!((report.attempts, report.out_of_memory), (3, 0));
/// ```
pub fn last() -> Option<Report> {
    tally::last()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary(f)?;
        self.sizes(f)?;
        self.lost(f)?;
        self.left_out(f)?;
        self.laddered(f)?;
        self.outlook(f)
    }
}

impl Report {
    fn summary(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = count(self.attempts, "attempt");
        match self.length {
            None => write!(f, "{}: {attempts}", self.name)?,
            Some(length) => {
                write!(f, "{}: {} of {} in {attempts}", self.name, self.done, count(length, "item"))?;
            }
        }
        match self.out_of_memory {
            0 => writeln!(f, ", never out of memory"),
            failed => writeln!(f, ", {failed} out of memory"),
        }
    }

    fn sizes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remembered {
            Some(size) => writeln!(f, "  started at {}, remembered {size} from an earlier call", self.start)?,
            None => writeln!(f, "  started at {}, nothing remembered", self.start)?,
        }
        if self.tried.is_empty() {
            return Ok(());
        }
        let tried: Vec<String> = self.tried.iter().map(ToString::to_string).collect();
        writeln!(f, "  sizes tried: {}", tried.join(", "))
    }

    fn lost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.out_of_memory == 0 {
            return Ok(());
        }
        match (self.time_lost_is_exact, self.time_lost.is_zero()) {
            (true, _) => writeln!(f, "  time lost to failed attempts: {:.1?}", self.time_lost),
            (false, false) => writeln!(f, "  time lost to failed attempts: at least {:.1?}", self.time_lost),
            (false, true) => writeln!(f, "  time lost to failed attempts: not measured without an observer"),
        }
    }

    fn left_out(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.set_aside.is_empty() {
            return Ok(());
        }
        let shown: Vec<String> = self.set_aside.iter().take(8).map(ToString::to_string).collect();
        let more = if shown.len() < self.set_aside.len() { ", ..." } else { "" };
        writeln!(f, "  failed alone and left out: items {}{more}", shown.join(", "))
    }

    fn laddered(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.waited.is_zero() {
            writeln!(f, "  waited for others on the device: {:.1?}", self.waited)?;
        }
        if self.fell_back { writeln!(f, "  fell back to another memory") } else { Ok(()) }
    }

    fn outlook(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.gave_up, self.settled) {
            (Some(reason), _) => {
                write!(f, "  gave up: {reason}")?;
                self.shortfall.map_or(Ok(()), |shortfall| write!(f, ": {shortfall}"))
            }
            (None, Some(size)) => write!(f, "  remembered for the next call: {size}"),
            (None, None) => write!(f, "  nothing new to remember"),
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { size, needs_bytes, free_bytes } = self;
        write!(f, "does not fit at size {size}: needs {}, {} free", bytes(needs_bytes), bytes(free_bytes))
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.size)?;
        if self.succeeded > 0 {
            write!(f, " (worked {})", count(self.succeeded, "time"))?;
        }
        match self.failed {
            None => Ok(()),
            Some(class) => write!(f, " ({class})"),
        }
    }
}

/// `3 items`, `1 item`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
