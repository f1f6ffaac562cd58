//! Counting what a call goes through, for its report.
//!
//! On the success path these are plain additions in the call's own frame; the history is built
//! only when something fails or the step changes.

use std::mem;
use std::time::{Duration, Instant};

use super::machine::{Extent, Verdict};
use crate::classify::Class;
use crate::observe::{Name, NameKind, Report, Tried, report};

/// Entries the history keeps; a call that changes its step without end must not eat the memory.
const MAX_HISTORY: usize = 256;

#[derive(Debug)]
pub(super) struct Tally {
    report: Report,
    /// Successes since the last entry of the history.
    run: usize,
    step: usize,
    clock: Option<Instant>,
}

impl Tally {
    #[inline]
    pub(super) fn new(name: Name, extent: Extent, start: usize, remembered: Option<usize>) -> Self {
        let length = match extent {
            Extent::Batch => None,
            Extent::Items(count) => Some(count),
        };
        let start = length.map_or(start, |length| start.min(length));
        let report = Report {
            name,
            length,
            done: 0,
            start,
            remembered,
            attempts: 0,
            out_of_memory: 0,
            tried: Vec::new(),
            time_lost: Duration::ZERO,
            time_lost_is_exact: true,
            settled: None,
            gave_up: None,
        };
        Self { report, run: 0, step: start, clock: None }
    }

    pub(super) fn name(&self) -> &Name {
        &self.report.name
    }

    pub(super) fn length(&self) -> Option<usize> {
        self.report.length
    }

    pub(super) fn remembered(&self) -> Option<usize> {
        self.report.remembered
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        (self.report.attempts, self.report.out_of_memory)
    }

    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.report.out_of_memory > 0
    }

    pub(super) fn start_clock(&mut self) {
        self.clock = Some(Instant::now());
    }

    #[inline]
    pub(super) fn elapsed(&mut self) -> Option<Duration> {
        self.clock.take().map(|start| start.elapsed())
    }

    #[inline]
    pub(super) fn succeeded(&mut self, step: usize, items: usize) {
        self.report.attempts += 1;
        self.report.done += items;
        self.run += 1;
        self.step = step;
    }

    /// The step is about to change after a success.
    #[cold]
    pub(super) fn step_changed(&mut self) {
        self.write_down(self.step, None);
    }

    pub(super) fn failed(&mut self, step: usize, class: Class, elapsed: Option<Duration>) {
        self.report.attempts += 1;
        self.report.out_of_memory += usize::from(class == Class::OutOfMemory);
        self.report.time_lost += elapsed.unwrap_or_default();
        self.report.time_lost_is_exact &= elapsed.is_some();
        let step = self.report.length.map_or(step, |length| step.min(length));
        self.write_down(step, Some(class));
    }

    pub(super) fn judged(&mut self, verdict: Verdict) {
        if let Verdict::GiveUp(reason) = verdict {
            self.report.gave_up = Some(reason);
        }
    }

    fn write_down(&mut self, size: usize, failed: Option<Class>) {
        let succeeded = mem::take(&mut self.run);
        if self.report.tried.len() < MAX_HISTORY {
            self.report.tried.push(Tried { size, succeeded, failed });
        }
    }

    /// Hands the report to the thread.
    #[inline]
    pub(super) fn report(&mut self, settled: Option<usize>) {
        self.report.settled = settled;
        if !self.report.tried.is_empty() && self.run > 0 {
            self.write_down(self.step, None);
        }
        report::set_last(mem::replace(&mut self.report, Report::empty()));
    }
}

impl Report {
    fn empty() -> Self {
        let name = Name(NameKind::Given("".into()));
        Tally::new(name, Extent::Batch, 0, None).report
    }
}
