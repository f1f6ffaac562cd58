//! Handling of successful attempts by a call.

use super::Call;
use crate::clock;
use crate::engine::attempt::Attempt;
use crate::engine::machine::Took;
use crate::observe::EventKind;
use crate::policy::Policy;
use crate::ranks;

impl Call<'_> {
    /// Counts a successful attempt. The policy or a doubt may change the step.
    #[inline]
    pub(crate) fn succeeded(&mut self, policy: &dyn Policy, attempt: &mut Attempt) {
        self.report.succeeded();
        let teaches_nothing =
            self.stages.is_none() && (self.machine.succeeds_as_before() || self.machine.ends_as_expected());
        if !teaches_nothing {
            self.learn(policy, attempt);
        }
    }

    #[inline(never)]
    fn learn(&mut self, policy: &dyn Policy, attempt: &mut Attempt) {
        let took = if self.stages.is_some() { self.end_succeeded(attempt) } else { Took::default() };
        let step = self.machine.step;
        if let Some(to) = self.machine.succeeded(policy, took) {
            self.step_changes(step, to);
        } else if self.machine.may_doubt() && self.doubts.succeeded() {
            self.doubt(step);
        }
    }

    #[inline(never)]
    fn end_succeeded(&mut self, attempt: &mut Attempt) -> Took {
        let took = self.measured(attempt);
        self.notify_succeeded(attempt, took);
        took
    }

    /// Returns the cost of a successful attempt, which the report and the prediction receive first.
    #[inline]
    pub(super) fn measured(&mut self, attempt: &mut Attempt) -> Took {
        let mut took = self.took(attempt);
        if let Some(measured) = &took.measured {
            let available_bytes = self.machine.available_bytes;
            self.report.measured(self.machine.size(), measured.peak_bytes, available_bytes);
        }
        if let Some(stages) = &mut self.stages {
            stages.turns.piece_done(&attempt.hold);
            if stages.prediction.is_some() {
                self.shows(&mut took);
            }
        }
        took
    }

    /// Reports an attempt that counts, and runs the actions that its body has left for that.
    #[inline]
    pub(super) fn notify_succeeded(&mut self, attempt: &Attempt, took: Took) {
        let Some(stages) = &mut self.stages else { return };
        let (start, end) = (attempt.piece.start, attempt.piece.end);
        let elapsed = took.elapsed.unwrap_or_default();
        stages.notify_succeeded(|| EventKind::Succeeded { start, end, elapsed });
        let agrees = stages.ballot.is_some();
        if let Some(again) = &mut stages.again {
            for action in again.succeeded() {
                if agrees { action() } else { ranks::when_agreed(action) }
            }
        }
    }

    #[inline]
    pub(super) fn took(&mut self, attempt: &mut Attempt) -> Took {
        let elapsed = attempt.begun.take().map(|begun| clock::now().saturating_duration_since(begun));
        if let Some(elapsed) = elapsed {
            self.report.took(elapsed);
        }
        let stages = self.stages.as_ref().filter(|stages| stages.measures);
        let measured = stages.map(|stages| stages.measure(attempt, elapsed, self.machine.is_batch()));
        Took { elapsed, measured }
    }

    #[cold]
    fn doubt(&mut self, step: usize) {
        if let Some(to) = self.machine.doubt() {
            self.doubts.begins();
            self.step_changes(step, to);
        }
    }

    #[cold]
    pub(super) fn step_changes(&mut self, from: usize, to: usize) {
        self.report_worked(from);
        self.time_from_now_on();
        self.notify(|| EventKind::Probe { from, to });
    }

    /// Adds the attempts since the last change of the step to the report.
    pub(super) fn report_worked(&mut self, step: usize) {
        let ran = self.machine.take_ran(step);
        self.report.worked(ran);
    }
}
