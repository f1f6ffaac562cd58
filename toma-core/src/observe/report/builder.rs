//! Builds the report of a call while it runs.
//!
//! On the success path this is one addition per attempt; the history is built only when something
//! fails or the step changes, and the report only when it is requested.
//!
//! # Why
//!
//! The first failed attempt's duration is unknown unless an observer sees the call. The report then says
//! "at least". Reading a clock on the success path would cost more than the loop.
//!
//! `Figures` has at most 128 bytes, which the compiler copies without a call. Fields that only some calls need are in
//! `History`, behind a box.

use std::cell::RefCell;
use std::mem;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::call_site::Name;
use crate::classify::Class;
use crate::observe::report::{Fullest, Predicted, Report, Shortfall, Tried, Wait};
use crate::observe::{Answer, Reason};
use crate::policy::Bounds;
use crate::stack::Callers;

#[derive(Debug)]
pub(crate) struct ReportBuilder {
    name: Name,
    history: Option<Box<History>>,
    sizes_are_costs: bool,
    figures: Figures,
}

/// The figures of every call, small enough that moving them is a copy without a call. A size is never 0.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    length: Option<usize>,
    /// The whole work in units of the step.
    whole: usize,
    start: usize,
    remembered: Option<NonZeroUsize>,
    attempts: usize,
    /// Time of all attempts, if timing began before the first one.
    time: Option<Duration>,
    /// Has size 0 if no attempt was measured.
    fullest: Fullest,
    position: usize,
    bounds: Bounds,
}

const _: () = assert!(size_of::<Figures>() <= 128, "larger ones are copied by a call");

/// Number of entries that are kept: a call that changes its step without end must not fill the memory.
const MOST: usize = 256;

/// The fields that a call does not need if it never fails and never changes its step.
#[derive(Clone, Debug)]
struct History {
    /// The report as recorded so far: its `attempts` are those in `tried`, and the fields of [`Figures`] are not set.
    /// `tried` may have one entry more than [`MOST`], so that the last one can be completed.
    report: Report,
    left_out_count: usize,
}

thread_local! {
    static LAST: RefCell<Option<ReportBuilder>> = const { RefCell::new(None) };
}

/// Returns the report of the last call that ended on this thread.
///
/// ```
/// # extern crate toma_core as toma;
/// toma::execute::range(0..10, 4, |_start, _end| ());
/// let report = toma::report::last().unwrap();
/// assert_eq!((report.attempts, report.out_of_memory), (3, 0));
/// ```
pub fn last() -> Option<Report> {
    LAST.try_with(|last| last.borrow().as_ref().map(ReportBuilder::report)).ok().flatten()
}

/// Creates the thread's slot for its last report while there is memory, because creating it allocates.
#[inline]
pub(crate) fn prepare() {
    let _ = LAST.try_with(|_| ());
}

impl ReportBuilder {
    #[inline]
    pub(crate) fn new(name: Name, length: Option<usize>, cost: Option<usize>) -> Self {
        let whole = cost.or(length).unwrap_or(usize::MAX);
        let figures = Figures { length, whole, ..Figures::default() };
        Self { name, history: None, sizes_are_costs: cost.is_some(), figures }
    }

    /// Limits a step to the size of the whole work.
    #[inline]
    pub(crate) fn within(&self, step: usize) -> usize {
        step.min(self.figures.whole)
    }

    #[inline]
    pub(crate) fn starts_at(&mut self, size: usize) {
        self.figures.start = size;
    }

    pub(crate) fn predicts(&mut self, predicted: Predicted) {
        self.history().report.predicted = Some(predicted);
    }

    pub(crate) fn predicts_nothing(&mut self, why: Option<String>) {
        if why.is_some() {
            self.history().report.unpredicted = why;
        }
    }

    #[inline]
    pub(crate) fn remembers(&mut self, settled: usize) {
        self.figures.remembered = NonZeroUsize::new(settled);
    }

    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    pub(crate) fn length(&self) -> Option<usize> {
        self.figures.length
    }

    pub(crate) fn remembered(&self) -> Option<usize> {
        self.figures.remembered.map(NonZeroUsize::get)
    }

    #[inline]
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.figures.attempts, self.history.as_ref().map_or(0, |history| history.report.out_of_memory))
    }

    #[inline]
    pub(crate) fn has_history(&self) -> bool {
        self.history.is_some()
    }

    /// Starts timing with the coming attempt, if it is the first of the call.
    pub(crate) fn begin_timing(&mut self) {
        if self.figures.attempts == 0 {
            self.figures.time = Some(Duration::ZERO);
        }
    }

    /// Adds the duration of a timed attempt.
    pub(crate) fn took(&mut self, elapsed: Duration) {
        if let Some(time) = &mut self.figures.time {
            *time = time.saturating_add(elapsed);
        }
    }

    #[inline]
    pub(crate) fn succeeded(&mut self) {
        self.figures.attempts += 1;
    }

    /// Records a success of this size if it came nearer to the limit than the one recorded before.
    #[inline(never)]
    pub(crate) fn measured(&mut self, size: usize, peak_bytes: Option<u64>, available_bytes: Option<u64>) {
        let (Some(peak_bytes), Some(available_bytes)) = (peak_bytes, available_bytes) else { return };
        let full = Fullest { size, peak_bytes, available_bytes };
        if self.figures.fullest.size == 0 || self.figures.fullest.share() < full.share() {
            self.figures.fullest = full;
        }
    }

    /// Adds an entry for the attempts since the last one, which have all succeeded at this size.
    #[cold]
    pub(crate) fn worked(&mut self, size: usize) {
        let succeeded = self.figures.attempts - self.history().report.attempts;
        if succeeded > 0 {
            self.add(Tried { size, succeeded, ..Tried::default() });
        }
    }

    pub(crate) fn failed(&mut self, size: usize, class: Class, elapsed: Option<Duration>) {
        self.history().report.out_of_memory += usize::from(class == Class::OutOfMemory);
        self.failed_elsewhere(size, class, elapsed);
    }

    /// Records a failed attempt. Unlike [`failed`](Self::failed), does not count it as out of memory, because it failed on
    /// another rank.
    pub(crate) fn failed_elsewhere(&mut self, size: usize, class: Class, elapsed: Option<Duration>) {
        self.figures.attempts += 1;
        self.add(Tried { size, failed: Some(class), ..Tried::default() });
        let report = &mut self.history().report;
        report.time_lost += elapsed.unwrap_or_default();
        report.time_lost_is_exact &= elapsed.is_some();
    }

    /// Counts a vote of this rank after it was done, because other ranks are not.
    pub(crate) fn joins(&mut self) {
        self.history().report.joined += 1;
    }

    /// Records the allocations that filled the memory at an attempt that ran out of it, if they are known.
    pub(crate) fn fills(&mut self, filled: Option<String>) {
        self.history().report.filled = filled;
    }

    /// Returns the allocations that filled the memory at the last attempt that ran out of it.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.history.as_ref()?.report.filled.as_deref()
    }

    /// Records the answer to the last failure.
    pub(crate) fn answered(&mut self, answer: Answer) {
        let History { report, left_out_count } = self.history();
        match answer {
            Answer::FallBack(_) => report.fell_back = true,
            Answer::GiveUp(reason) => report.gave_up = Some(reason),
            Answer::LeaveOut { index, .. } => {
                *left_out_count += 1;
                if report.left_out.len() < MOST {
                    report.left_out.push(index);
                }
            }
            Answer::Again(_) | Answer::Shrink(_) | Answer::Follow { .. } => {}
        }
        if let Some(last) = report.tried.last_mut() {
            last.answer = Some(answer);
        }
    }

    /// Records that the failure of a left-out item is returned to the caller after all.
    pub(crate) fn gives_up(&mut self, reason: Reason) {
        self.history().report.gave_up = Some(reason);
    }

    /// Records that the coming attempt has waited for its turn on the device.
    pub(crate) fn waited(&mut self, elapsed: Duration, exclusive: bool) {
        let attempts = self.figures.attempts;
        let report = &mut self.history().report;
        report.waited += elapsed;
        if report.attempts == attempts
            && let Some(tried @ Tried { answer: Some(Answer::Again(_)), .. }) = report.tried.last_mut()
        {
            let before = tried.wait.map_or(Duration::ZERO, |wait| wait.elapsed);
            tried.wait = Some(Wait { elapsed: before + elapsed, exclusive });
        }
    }

    /// Records that the smallest size does not fit; returns true if that is new.
    ///
    /// The last request of a failed attempt is only part of its need, so it does not replace a larger prediction.
    pub(crate) fn falls_short(&mut self, shortfall: Shortfall) -> bool {
        let known = &mut self.history().report.shortfall;
        let is_predicted = |known: &Shortfall| known.per_item_bytes.is_some();
        if known.is_some_and(|known| is_predicted(&known) && shortfall.needs_bytes <= known.needs_bytes) {
            return false;
        }
        known.replace(shortfall).is_none()
    }

    /// Adds one entry for all attempts that are not recorded yet.
    fn add(&mut self, tried: Tried) {
        let tried = Tried { size: self.within(tried.size), time: self.figures.time, ..tried };
        let attempts = self.figures.attempts;
        let report = &mut self.history().report;
        report.attempts = attempts;
        report.tried.truncate(MOST);
        report.tried.push(tried);
    }

    fn history(&mut self) -> &mut History {
        self.history.get_or_insert_default()
    }

    /// Records the size that settled, and the callers for which the size cache of this name remembers it; `None` if it
    /// remembers nothing.
    #[cold]
    pub(crate) fn settles(&mut self, size: usize, cache: &'static str, callers: Option<Callers>) {
        let report = &mut self.history().report;
        (report.settled, report.cache) = (Some(size), Some(cache));
        report.is_remembered = callers.is_some();
        report.callers = callers.unwrap_or_default();
    }

    /// Records that a failure was injected, so that nothing is learned.
    #[cold]
    pub(crate) fn is_injected(&mut self) {
        self.history().report.injected = true;
    }

    /// Ends the call and moves its figures to the thread, for [`last`]. `ran` is the size of the attempts that
    /// succeeded since the last entry.
    #[inline]
    pub(crate) fn finish(&mut self, position: usize, bounds: Bounds, ran: usize) {
        (self.figures.position, self.figures.bounds) = (position, bounds);
        if self.history.is_some() {
            self.worked(ran);
        }
        // At thread exit no later call can ask for the report.
        let _ = LAST.try_with(|last| match &mut *last.borrow_mut() {
            Some(last) => last.take_over(self),
            none => {
                let empty = Self::new(Name::default(), None, None);
                *none = Some(mem::replace(self, empty));
            }
        });
    }

    /// Swaps the fields that own memory, so that dropping `other` frees the old ones, and copies the rest. This runs at
    /// every call.
    #[inline]
    fn take_over(&mut self, other: &mut Self) {
        mem::swap(&mut self.name, &mut other.name);
        mem::swap(&mut self.history, &mut other.history);
        (self.sizes_are_costs, self.figures) = (other.sizes_are_costs, other.figures);
    }

    fn report(&self) -> Report {
        let History { mut report, left_out_count } = self.history.as_deref().cloned().unwrap_or_default();
        report.tried.truncate(MOST);
        let Figures { length, start, remembered, attempts, time, fullest, position, bounds, .. } =
            self.figures;
        Report {
            name: self.name.clone(),
            length,
            done: position - left_out_count,
            sizes_are_costs: self.sizes_are_costs,
            start: self.within(start),
            remembered: remembered.map(NonZeroUsize::get),
            attempts,
            bounds,
            fullest: (fullest.size > 0).then_some(fullest),
            time,
            ..report
        }
    }
}

impl Default for History {
    fn default() -> Self {
        let report = Report { time_lost_is_exact: true, ..Report::default() };
        Self { report, left_out_count: 0 }
    }
}
