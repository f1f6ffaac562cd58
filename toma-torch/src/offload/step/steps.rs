//! State of the repeated step, under the lock of the table: detecting, recording, following.

use std::sync::Arc;
use std::time::Duration;

use toma_plan::residency::Periods;

use super::known_step::{Ensuing, KnownStep, LearnedStep, UsedStorage};
use super::position::StepPosition;
use super::recorder::StepRecorder;

/// State of the step, under the lock of the table.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    periods: Periods,
    /// True once a storage has been evicted or is about to be: before that there is nothing to plan.
    pub(crate) is_wanted: bool,
    /// True if the program marks where steps begin.
    is_marked: bool,
    recording: Option<StepRecorder>,
    /// Period of a repetition that was detected. The step becomes known when the running operator has ended.
    noticed: Option<usize>,
    following: Option<StepPosition>,
    /// True if the followed step was predicted. It may be a part of the step, and is followed until that is recorded.
    is_predicted: bool,
    /// The step that was followed last, and may be followed again.
    known: Option<Arc<KnownStep>>,
    /// Consecutive steps marked by the program that were not the known one.
    misses: u32,
    pub(crate) deviations: u64,
}

/// After this many misses in a row a new step is recorded.
const MOST_MISSES: u32 = 3;

/// After this many operators that no period explains, recording stops until a period explains the operators.
const MOST_UNEXPLAINED: usize = 1 << 14;

impl Steps {
    /// Returns true if the step that is followed was predicted.
    pub(crate) fn is_predicted(&self) -> bool {
        self.is_predicted
    }

    /// Returns true if operators must be reported.
    pub(crate) fn is_active(&self) -> bool {
        self.is_wanted || self.is_marked
    }

    /// Begins an operator. Returns the bytes that it allocates while it runs; 0 if unknown.
    pub(crate) fn begins(&mut self, print: u64, found: &[UsedStorage], gone: impl Fn(u64) -> bool) -> u64 {
        if !self.is_marked {
            self.search_period(print);
        }
        if let Some(recording) = &mut self.recording {
            recording.begins(print, found, gone);
        }
        self.follows(print, found)
    }

    /// Adds an operator's fingerprint to the search for a period, in programs that mark no steps. Starts a recording
    /// when a new period is found, or ends it when none is left.
    fn search_period(&mut self, print: u64) {
        let period = self.periods.push(print);
        self.noticed = period.filter(|period| self.is_new_step(*period));
        let is_known = self.following.is_some() && !self.is_predicted;
        let is_hopeless = period.is_none() && self.periods.unexplained() > MOST_UNEXPLAINED;
        if is_known || is_hopeless {
            self.recording = None;
        } else {
            self.recording.get_or_insert_default();
        }
    }

    /// Returns true if a period is a new step. Parts of a predicted step may repeat themselves, too.
    fn is_new_step(&self, period: usize) -> bool {
        let predicted = self.known.as_ref().filter(|_| self.is_predicted);
        match predicted {
            Some(known) => period >= known.prints.len(),
            None => period > 1 && self.following.is_none(),
        }
    }

    fn follows(&mut self, print: u64, found: &[UsedStorage]) -> u64 {
        let Some(following) = &mut self.following else { return 0 };
        if let Some(inside_bytes) = following.begins(print, found) {
            return inside_bytes;
        }
        self.deviations += u64::from(following.at > 0 || !self.is_predicted);
        if !self.is_predicted {
            self.following = None;
            return 0;
        }
        // A predicted step begins wherever its first operator does.
        following.restart();
        following.begins(print, found).unwrap_or(0)
    }

    /// Ends the running operator.
    pub(crate) fn ends(&mut self, made: &[UsedStorage], inside_bytes: u64, duration: Duration) -> Ensuing {
        let following = self.following.as_mut();
        let mut ensuing = following.map(|following| following.ends(made)).unwrap_or_default();
        if let Some(recording) = &mut self.recording {
            recording.ends(made, inside_bytes, duration);
            let noticed = self.noticed.take().filter(|period| recording.is_at_fewest_bytes(*period));
            let noticed = noticed.and_then(|period| recording.folded(period));
            ensuing.known = noticed.map(Box::new);
        }
        ensuing
    }

    /// Ends an operator that has failed: the operators after it are no repetition.
    pub(crate) fn fails(&mut self) {
        self.deviations += u64::from(self.following.is_some());
        self.recording = None;
        match &mut self.following {
            Some(following) if self.is_predicted => following.restart(),
            _ => self.following = None,
        }
    }

    /// Called when the program marks the beginning of a step. Returns a step that has just become known.
    pub(crate) fn step_begins(&mut self) -> Option<LearnedStep> {
        if !std::mem::replace(&mut self.is_marked, true) {
            // Discards a step that was detected by its period: the program now marks steps itself.
            self.recording = None;
            if !self.is_predicted {
                (self.following, self.known) = (None, None);
            }
        }
        let is_at_begin = self.following.as_ref().is_some_and(|following| following.at == 0);
        match &mut self.recording {
            Some(recording) if recording.half.is_none() && !recording.rows.is_empty() => {
                recording.half = Some(recording.rows.len());
            }
            Some(recording) if recording.half.is_some() => {
                let learned = recording.marked_step();
                self.recording = Some(StepRecorder::default());
                if learned.is_some() {
                    return learned;
                }
            }
            _ if self.is_predicted => self.recording = Some(StepRecorder::default()),
            _ if is_at_begin => self.misses = 0,
            _ => self.miss(),
        }
        if self.is_predicted && !is_at_begin {
            self.following = self.known.clone().map(StepPosition::of);
        }
        None
    }

    /// Tries the known step again, or records a new one after too many misses.
    fn miss(&mut self) {
        self.misses += 1;
        let known = self.known.clone().filter(|_| self.misses < MOST_MISSES);
        self.recording = if known.is_some() { None } else { Some(StepRecorder::default()) };
        self.following = known.map(StepPosition::of);
    }

    /// Follows a step from the next operator on, which is its first.
    pub(crate) fn follow(&mut self, known: Arc<KnownStep>, bound: &[(usize, u64)]) {
        (self.recording, self.is_predicted) = (None, false);
        let mut following = StepPosition::of(Arc::clone(&known));
        for (number, id) in bound {
            following.bind(*number, *id);
        }
        (self.following, self.known) = (Some(following), Some(known));
    }

    /// Follows a predicted step from its first operator on, wherever that comes.
    pub(crate) fn predict(&mut self, known: Arc<KnownStep>, bound: &[(usize, u64)]) {
        self.follow(known, bound);
        (self.is_wanted, self.is_predicted) = (true, true);
    }

    pub(crate) fn known(&self) -> Option<&Arc<KnownStep>> {
        self.known.as_ref()
    }

    pub(crate) fn following(&self) -> Option<&StepPosition> {
        self.following.as_ref()
    }

    /// Replaces the plan of the known step, unless another thread has made another step known meanwhile.
    pub(crate) fn replan(&mut self, before: &Arc<KnownStep>, known: Arc<KnownStep>) {
        let is_before = |known: &Arc<KnownStep>| Arc::ptr_eq(known, before);
        if let Some(following) = self.following.as_mut().filter(|following| is_before(&following.known)) {
            following.known = Arc::clone(&known);
        }
        if self.known.as_ref().is_some_and(is_before) {
            self.known = Some(known);
        }
    }
}
