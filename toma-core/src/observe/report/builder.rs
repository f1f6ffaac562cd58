//! Builds the report of a call while it runs.
//!
//! On the success path this is one addition per attempt; the history is built only when something
//! fails or the step changes, and the report only when it is asked for.
//!
//! # Why
//!
//! The first failed attempt's duration is unknown unless an observer sees the call. The report then says
//! "at least". Reading a clock on the success path would cost more than the loop.
//!
//! Figures are within 128 bytes, which the compiler copies without a call. What only some calls have is in
//! the history, behind a box.

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

/// What every call has, in few enough bytes that handing it over is a copy without a call. A size is
/// never 0.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    length: Option<usize>,
    /// The whole work in units of the step.
    whole: usize,
    start: usize,
    remembered: Option<NonZeroUsize>,
    attempts: usize,
    /// That of all attempts, when all are timed: it is the first that may be not.
    time: Option<Duration>,
    /// Of size 0 where no attempt was measured.
    fullest: Fullest,
    position: usize,
    bounds: Bounds,
}

const _: () = assert!(size_of::<Figures>() <= 128, "larger ones are copied by a call");

/// Entries that are kept; a call that changes its step without end must not eat the memory.
const MOST: usize = 256;

/// What calls that never fail and never change their step do not have.
#[derive(Clone, Debug)]
struct History {
    /// As far as it is told: its attempts are those in `tried`, and what is in the figures is missing. One entry of
    /// `tried` may be too many, so that the last one can be completed.
    report: Report,
    left_out_count: usize,
}

thread_local! {
    static LAST: RefCell<Option<ReportBuilder>> = const { RefCell::new(None) };
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
    LAST.try_with(|last| last.borrow().as_ref().map(ReportBuilder::report)).ok().flatten()
}

/// Makes the thread's place for its last report while there is memory: making it allocates.
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

    /// A step larger than the whole work is in truth of the work's size.
    #[inline]
    pub(crate) fn within(&self, step: usize) -> usize {
        step.min(self.figures.whole)
    }

    #[inline]
    pub(crate) fn starts_at(&mut self, size: usize) {
        self.figures.start = size;
    }

    pub(crate) fn foresees(&mut self, foreseen: Predicted) {
        self.history().report.foreseen = Some(foreseen);
    }

    pub(crate) fn foresees_nothing(&mut self, why: Option<String>) {
        if why.is_some() {
            self.history().report.unforeseen = why;
        }
    }

    #[inline]
    pub(crate) fn remembers(&mut self, settled: Option<usize>) {
        self.figures.remembered = settled.and_then(NonZeroUsize::new);
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

    /// The coming attempt is timed, and so are all after it.
    pub(crate) fn begin_timing(&mut self) {
        if self.figures.attempts == 0 {
            self.figures.time = Some(Duration::ZERO);
        }
    }

    /// An attempt has ended that was timed.
    pub(crate) fn took(&mut self, elapsed: Duration) {
        if let Some(time) = &mut self.figures.time {
            *time = time.saturating_add(elapsed);
        }
    }

    #[inline]
    pub(crate) fn succeeded(&mut self) {
        self.figures.attempts += 1;
    }

    /// An attempt of this size succeeded; keeps the one that came nearest to the limit.
    #[inline(never)]
    pub(crate) fn measured(&mut self, size: usize, peak_bytes: Option<u64>, available_bytes: Option<u64>) {
        let (Some(peak_bytes), Some(available_bytes)) = (peak_bytes, available_bytes) else { return };
        let full = Fullest { size, peak_bytes, available_bytes };
        if self.figures.fullest.size == 0 || self.figures.fullest.share() < full.share() {
            self.figures.fullest = full;
        }
    }

    /// The attempts since the last entry have succeeded, at this size.
    #[cold]
    pub(crate) fn worked(&mut self, size: usize) {
        let succeeded = self.figures.attempts - self.history().report.attempts;
        if succeeded > 0 {
            self.add(Tried { size, succeeded, ..Tried::default() });
        }
    }

    pub(crate) fn failed(&mut self, size: usize, class: Class, elapsed: Option<Duration>) {
        self.figures.attempts += 1;
        self.add(Tried { size, failed: Some(class), ..Tried::default() });
        let report = &mut self.history().report;
        report.out_of_memory += usize::from(class == Class::OutOfMemory);
        report.time_lost += elapsed.unwrap_or_default();
        report.time_lost_is_exact &= elapsed.is_some();
    }

    /// An attempt has failed on another rank.
    pub(crate) fn failed_elsewhere(&mut self, size: usize, class: Class, elapsed: Option<Duration>) {
        self.figures.attempts += 1;
        self.add(Tried { size, failed: Some(class), ..Tried::default() });
        let report = &mut self.history().report;
        report.time_lost += elapsed.unwrap_or_default();
        report.time_lost_is_exact &= elapsed.is_some();
    }

    /// This rank is done, and votes once more because others are not.
    pub(crate) fn joins(&mut self) {
        self.history().report.joined += 1;
    }

    /// An attempt ran out of memory, which was filled by this, if that is known.
    pub(crate) fn fills(&mut self, filled: Option<String>) {
        self.history().report.filled = filled;
    }

    /// What filled the memory at the last failure that ran out of it.
    pub(crate) fn filled(&self) -> Option<&str> {
        self.history.as_ref()?.report.filled.as_deref()
    }

    /// What is done about the failure that came last.
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

    /// The failure of an item that was left out goes through after all.
    pub(crate) fn gives_up(&mut self, reason: Reason) {
        self.history().report.gave_up = Some(reason);
    }

    /// The coming attempt has waited for its turn on the device.
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

    /// Takes note that the smallest size does not fit; says whether that is new.
    ///
    /// What was asked for last is less than what is predicted.
    pub(crate) fn falls_short(&mut self, shortfall: Shortfall) -> bool {
        let known = &mut self.history().report.shortfall;
        let is_predicted = |known: &Shortfall| known.per_item_bytes.is_some();
        if known.is_some_and(|known| is_predicted(&known) && shortfall.needs_bytes <= known.needs_bytes) {
            return false;
        }
        known.replace(shortfall).is_none()
    }

    /// One entry, of all attempts that are not told yet.
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

    /// The size cache of this name was to remember a size; `None` when it remembers nothing.
    #[cold]
    pub(crate) fn settles(&mut self, settled: Option<usize>, cache: &'static str, callers: Callers) {
        let report = &mut self.history().report;
        report.callers = callers;
        (report.settled, report.cache) = (settled, Some(cache));
    }

    /// A failure was injected, so nothing is learned.
    #[cold]
    pub(crate) fn is_injected(&mut self) {
        self.history().report.injected = true;
    }

    /// The call is over: hands the figures to the thread, for [`last`]. `ran`: the size of the attempts that
    /// succeeded since the last entry.
    #[inline]
    pub(crate) fn finish(&mut self, position: usize, bounds: Bounds, ran: usize) {
        (self.figures.position, self.figures.bounds) = (position, bounds);
        if self.history.is_some() {
            self.worked(ran);
        }
        // At thread exit no call is left that could ask.
        let _ = LAST.try_with(|last| match &mut *last.borrow_mut() {
            Some(last) => last.take_over(self),
            none => {
                let empty = Self::new(Name::default(), None, None);
                *none = Some(mem::replace(self, empty));
            }
        });
    }

    /// Moves what is dropped some day by swapping, which leaves `other` with something to drop, and
    /// copies the rest: this runs at every call.
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
