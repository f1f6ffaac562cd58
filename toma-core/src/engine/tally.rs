//! Counting what a call goes through, for its report.
//!
//! On the success path this is one addition per attempt; the history is built only when something
//! fails or the step changes, and the report only when somebody asks for it.

use std::cell::RefCell;
use std::mem;
use std::time::{Duration, Instant};

use super::clock;
use super::machine::{Machine, Verdict};
use crate::classify::Class;
use crate::observe::{Name, Report, Shortfall, Tried};

/// Entries the history keeps; a call that changes its step without end must not eat the memory.
const MAX_HISTORY: usize = 256;

#[derive(Debug)]
pub(crate) struct Tally {
    name: Name,
    length: Option<usize>,
    /// The whole work in units of the step.
    whole: usize,
    start: usize,
    remembered: Option<usize>,
    attempts: usize,
    clock: Option<Instant>,
    history: Option<Box<History>>,
    outcome: Outcome,
}

/// How the call ended; known when it is over.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    position: usize,
    settled: Option<usize>,
}

/// What calls that never fail and never change their step do not have.
#[derive(Debug)]
struct History {
    tried: Vec<Tried>,
    attempts_told: usize,
    out_of_memory: usize,
    time_lost: Duration,
    exact: bool,
    gave_up: Option<&'static str>,
    shortfall: Option<Shortfall>,
    /// Items that failed alone: how many, and the first of them.
    left_out: usize,
    set_aside: Vec<usize>,
}

thread_local! {
    static LAST: RefCell<Option<Tally>> = const { RefCell::new(None) };
}

/// The report of the last call that ended on this thread.
pub(crate) fn last() -> Option<Report> {
    LAST.try_with(|last| last.borrow().as_ref().map(Tally::report)).ok().flatten()
}

/// Makes the thread's place for its last report while there is memory: making it allocates.
#[inline]
pub(super) fn prepare() {
    let _ = LAST.try_with(|_| ());
}

impl Tally {
    #[inline]
    pub(super) fn new(name: Name, length: Option<usize>) -> Self {
        Self {
            name,
            length,
            whole: length.unwrap_or(usize::MAX),
            start: 0,
            remembered: None,
            attempts: 0,
            clock: None,
            history: None,
            outcome: Outcome::default(),
        }
    }

    /// The whole work costs so much, where sizes are costs.
    pub(super) fn weighs(&mut self, whole: usize) {
        self.whole = whole;
    }

    /// A step larger than the whole work is in truth of the work's size.
    pub(super) fn within(&self, step: usize) -> usize {
        step.min(self.whole)
    }

    #[inline]
    pub(super) fn starts_at(&mut self, step: usize) {
        self.start = step;
    }

    #[inline]
    pub(super) fn remembers(&mut self, settled: Option<usize>) {
        self.remembered = settled;
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn length(&self) -> Option<usize> {
        self.length
    }

    pub(super) fn remembered(&self) -> Option<usize> {
        self.remembered
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        (self.attempts, self.history.as_ref().map_or(0, |history| history.out_of_memory))
    }

    #[inline]
    pub(super) fn has_history(&self) -> bool {
        self.history.is_some()
    }

    pub(super) fn start_clock(&mut self) {
        self.clock = Some(clock::now());
    }

    #[inline]
    pub(super) fn elapsed(&mut self) -> Option<Duration> {
        let start = self.clock?;
        self.clock = None;
        Some(clock::now().saturating_duration_since(start))
    }

    #[inline]
    pub(super) fn succeeded(&mut self) {
        self.attempts += 1;
    }

    /// The step is about to change from `step` after a success.
    #[cold]
    pub(super) fn step_changes(&mut self, step: usize) {
        self.write_down(step, None);
    }

    pub(super) fn failed(&mut self, step: usize, class: Class, elapsed: Option<Duration>) {
        self.write_down(step, Some(class));
        self.attempts += 1;
        let attempts = self.attempts;
        let history = self.history();
        history.attempts_told = attempts;
        history.out_of_memory += usize::from(class == Class::OutOfMemory);
        history.time_lost += elapsed.unwrap_or_default();
        history.exact &= elapsed.is_some();
    }

    pub(super) fn judged(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::GiveUp(reason) => self.history().gave_up = Some(reason),
            Verdict::SetAside { index, .. } => {
                let history = self.history();
                history.left_out += 1;
                if history.set_aside.len() < MAX_HISTORY {
                    history.set_aside.push(index);
                }
            }
            Verdict::Again | Verdict::Shrink(_) => {}
        }
    }

    /// Takes note that the smallest size does not fit; says whether that is new.
    pub(super) fn falls_short(&mut self, shortfall: Shortfall) -> bool {
        self.history().shortfall.replace(shortfall).is_none()
    }

    /// One entry: the successes since the last one, at this step, and what ended them.
    fn write_down(&mut self, step: usize, failed: Option<Class>) {
        let (attempts, size) = (self.attempts, self.within(step));
        let history = self.history();
        let succeeded = attempts - mem::replace(&mut history.attempts_told, attempts);
        if history.tried.len() < MAX_HISTORY && (succeeded > 0 || failed.is_some()) {
            history.tried.push(Tried { size, succeeded, failed });
        }
    }

    fn history(&mut self) -> &mut History {
        self.history.get_or_insert_default()
    }

    /// The call is over: hands the tally to the thread, for [`last`].
    #[inline]
    pub(super) fn finish(&mut self, machine: &Machine, settled: Option<usize>) {
        self.outcome = Outcome { position: machine.position(), settled };
        if self.history.is_some() {
            self.write_down(machine.step(), None);
        }
        // Swapping is cheaper than moving one out and another in, and this runs at every call. At
        // thread exit there is nobody left to ask.
        let _ = LAST.try_with(|last| match &mut *last.borrow_mut() {
            Some(last) => mem::swap(last, self),
            none => {
                let empty = Self::new(Name::default(), None);
                *none = Some(mem::replace(self, empty));
            }
        });
    }

    fn report(&self) -> Report {
        let none = History::default();
        let history = self.history.as_deref().unwrap_or(&none);
        Report {
            name: self.name.clone(),
            length: self.length,
            done: self.outcome.position - history.left_out,
            start: self.within(self.start),
            remembered: self.remembered,
            attempts: self.attempts,
            out_of_memory: history.out_of_memory,
            tried: history.tried.clone(),
            time_lost: history.time_lost,
            time_lost_is_exact: history.exact,
            settled: self.outcome.settled,
            gave_up: history.gave_up,
            shortfall: history.shortfall,
            set_aside: history.set_aside.clone(),
        }
    }
}

impl Default for History {
    fn default() -> Self {
        Self {
            tried: Vec::new(),
            attempts_told: 0,
            out_of_memory: 0,
            time_lost: Duration::ZERO,
            exact: true,
            gave_up: None,
            shortfall: None,
            left_out: 0,
            set_aside: Vec::new(),
        }
    }
}
