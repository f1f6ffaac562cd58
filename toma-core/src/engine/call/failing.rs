//! Handling of failed attempts by a call.

use super::Call;
use super::memory::is_about_memory;
use crate::classify::{Class, Failure};
use crate::device::{self, Pressure, Rung};
use crate::engine::attempt::Attempt;
use crate::engine::checked_policy::CheckedPolicy;
use crate::engine::machine::Failed;
use crate::engine::rungs::Rungs;
use crate::engine::stages::Stages;
use crate::observe::witness::{self, Witnessed};
use crate::observe::{Answer, EventKind, Reason, Shortfall};
use crate::policy::Policy;
use crate::reserve;
use crate::shield::{self, Panic, Retryable};

impl Call<'_> {
    /// Decides how the call continues after a failed attempt. The failed values are still alive, because a failure
    /// that is not retried is passed on unchanged.
    ///
    /// Giving up is reported here. Any other answer may still change, and is reported by [`release`](Self::release).
    #[cold]
    pub(crate) fn failed(
        &mut self,
        policy: &dyn Policy,
        attempt: &mut Attempt,
        failure: &Failure,
        panic: Option<&Panic>,
    ) -> Answer {
        let failed = self.look_at(attempt, failure, panic);
        let lacked = self.machine.lacked(&failed);
        let answer = self.answer(policy, attempt, &failed);
        self.notify_failed(attempt, failure, &failed);
        self.notify_shortfall_of(&failed, lacked);
        self.note_answer(attempt, failure, &failed, answer);
        answer
    }

    /// Ends the attempt and collects its time and measurements, the memory reading after it, and the available rungs.
    fn look_at(&mut self, attempt: &mut Attempt, failure: &Failure, panic: Option<&Panic>) -> Failed {
        self.time_from_now_on();
        self.injected |= attempt.injected;
        if self.machine.doubted.is_some() {
            self.doubts.fails();
        }
        let took = self.took(attempt);
        if let Some(witnessed) = self.witnessed() {
            witnessed.leave();
        }
        self.report_worked(self.machine.step);
        let &Failure { class, requested_bytes, .. } = failure;
        self.report.failed(self.machine.size(), class, took.elapsed);
        let now = self.memory.read_after(class).filter(|_| self.why_over() != Some(Reason::Disabled));
        let failed =
            Failed { class, requested_bytes, now, took, there: self.rungs_after(attempt, class, panic) };
        let (step, size, falls_back) = (self.machine.step, self.machine.size(), self.machine.fallback);
        let stages = self.stages.get_or_insert_with(Stages::none);
        (stages.failed_step, stages.failed_size) = (step, size);
        stages.measured_failure(attempt, &failed, !falls_back, self.needs);
        failed
    }

    /// Reads the clock at each attempt from now on, because this call has a history to report.
    pub(super) fn time_from_now_on(&mut self) {
        self.stages.get_or_insert_with(Stages::none).times = true;
    }

    /// Returns the rungs that are available after the failure.
    ///
    /// If a panic was printed because no retry was promised, it must be passed on: a rung that became available since
    /// then is too late. A panic can give way only if the enclosing attempt keeps it from being printed.
    fn rungs_after(&self, attempt: &Attempt, class: Class, panic: Option<&Panic>) -> Rungs {
        let Some(stages) = self.stages.as_ref().filter(|_| !self.machine.fallback) else {
            return Rungs::NONE;
        };
        let rungs = stages.rungs_after(attempt);
        match panic {
            Some(panic) if panic.was_printed() && !attempt.retryable.covers(class) => Rungs::NONE,
            Some(_) if !shield::would_retry().covers(class) => rungs.without(Rungs::GIVE_WAY),
            _ => rungs,
        }
    }

    fn answer(&mut self, policy: &dyn Policy, attempt: &Attempt, failed: &Failed) -> Answer {
        // The machine would retry, but the attempt began too late to be promised that.
        let promised_nothing = attempt.retryable == Retryable::NOTHING;
        let began_late = promised_nothing && self.machine.retryable() != Retryable::NOTHING;
        let is_whole = self.stages.as_ref().is_some_and(Stages::is_whole);
        let why_over = self.why_over().or(began_late.then_some(Reason::Deadline));
        let why_over = why_over.or(is_whole.then_some(Reason::NothingSmaller));
        if is_about_memory(failed.class)
            && let Some(reason) = why_over
        {
            self.machine.forget();
            return Answer::GiveUp(reason);
        }
        self.machine.failed(&CheckedPolicy { policy, call: self.report.name() }, failed)
    }

    /// Lets the stages and the report note the answer. Giving up is final, so observers are notified of it now.
    fn note_answer(&mut self, attempt: &Attempt, failure: &Failure, failed: &Failed, answer: Answer) {
        let injected = self.injected;
        let stages = self.stages.get_or_insert_with(Stages::none);
        let size = stages.failed_size;
        stages.after_failure(attempt, (failure, injected), failed, answer);
        // The values may panic when they are dropped: the report has the answer by then.
        self.report.answered(answer);
        if let Answer::GiveUp(_) = answer {
            self.notify(|| EventKind::Answered { size, answer });
        }
    }

    /// Releases cached memory and the turn, and reports the answer. The failed values are dropped and undone by now.
    pub(crate) fn release(&mut self, policy: &dyn Policy, attempt: Attempt, answer: Answer) {
        if let Some(device) = self.memory.device {
            let _inside = attempt.enter();
            device.release_cached_memory();
        }
        reserve::hold();
        // Before others get the device, because until then the free bytes are this call's.
        let answer = self.predicted(answer);
        let Some(stages) = &mut self.stages else { return };
        stages.release(attempt.hold, answer);
        let asks = stages.again.as_mut().and_then(|again| again.asks.take());
        let answer = asks.map_or(answer, |failed| self.after_rung(policy, &failed, answer));
        if self.machine.fallback
            && let Some(stages) = &mut self.stages
        {
            stages.fall_back();
        }
        self.notify_final(answer);
    }

    /// Returns the answer with the size that a prediction chooses instead of a smaller one of the policy.
    fn predicted(&mut self, answer: Answer) -> Answer {
        match answer {
            Answer::Shrink(_) => self.predicts_smaller().unwrap_or(answer),
            answer => answer,
        }
    }

    /// Calls the leaner plans or hooks whose rung the answer takes. If they free nothing, takes the next rung.
    fn after_rung(&mut self, policy: &dyn Policy, failed: &Failed, mut answer: Answer) -> Answer {
        let _aside = self.stages.as_ref().map(|stages| stages.turns.aside());
        while !self.is_given(failed, answer) {
            let policy = CheckedPolicy { policy, call: self.report.name() };
            let Some(next) = self.machine.gave_nothing(&policy, failed) else { break };
            answer = next;
        }
        self.predicted(answer)
    }

    /// True if the answer stands after its rung was tried.
    fn is_given(&mut self, failed: &Failed, answer: Answer) -> bool {
        match answer {
            Answer::Again(Rung::Leaner) => self.leans(),
            Answer::Again(Rung::Hooks) => {
                let free_bytes = failed.now.map(|now| now.free_bytes);
                let (device, size) = (self.memory.source().name(), self.machine.size());
                device::ask(&Pressure { device, requested_bytes: failed.requested_bytes, free_bytes, size })
            }
            _ => true,
        }
    }

    /// Reports the final answer, unless ranks vote on the next attempt: their agreement is reported instead.
    fn notify_final(&mut self, answer: Answer) {
        let Some(stages) = &mut self.stages else { return };
        let (size, from, to) = (stages.failed_size, stages.failed_step, self.machine.step);
        match (&mut stages.ballot, answer) {
            (_, Answer::LeaveOut { .. }) => {
                self.notify(|| EventKind::Answered { size, answer });
                if to != from {
                    self.notify(|| EventKind::Probe { from, to });
                }
            }
            (Some(ballot), _) if ballot.owes_failure() => ballot.pending = Some(answer),
            _ => self.notify_answer(size, answer),
        }
    }

    /// Gives up on a single item of this cost, whose failure is passed on because all other items are done.
    pub(crate) fn gives_up_left_out(&mut self, cost: usize) {
        let reason = Reason::LeftOut;
        self.report.gives_up(reason);
        self.notify(|| EventKind::Answered { size: cost, answer: Answer::GiveUp(reason) });
    }

    fn notify_failed(&mut self, attempt: &Attempt, failure: &Failure, failed: &Failed) {
        let &Failed { class, requested_bytes, now, took, .. } = failed;
        // After all measurements, because the witness's answer takes memory of its own.
        if class == Class::OutOfMemory {
            self.report.fills(witness::filled());
        }
        if let Some(witnessed) = self.witnessed() {
            witnessed.failed(class);
        }
        let (start, end) = (attempt.piece.start, attempt.piece.end);
        let Some(stages) = &mut self.stages else { return };
        let size = stages.failed_size;
        stages.notify(|| EventKind::Failed {
            start,
            end,
            size,
            class,
            requested_bytes,
            free_bytes: now.map(|now| now.free_bytes),
            message: &failure.message,
            filled: self.report.filled().filter(|_| class == Class::OutOfMemory),
            elapsed: took.elapsed,
        });
    }

    pub(super) fn notify_answer(&mut self, size: usize, answer: Answer) {
        self.report.answered(answer);
        self.notify(|| EventKind::Answered { size, answer });
    }

    fn notify_shortfall_of(&mut self, failed: &Failed, lacked: Option<Shortfall>) {
        let predicted = failed.took.measured.and_then(|measured| self.machine.shortfall(&measured));
        if let Some(shortfall) = lacked.or(predicted) {
            self.notify_shortfall(shortfall);
        }
    }

    /// Reports once that even the smallest size does not fit.
    pub(super) fn notify_shortfall(&mut self, shortfall: Shortfall) {
        let Shortfall { size, needs_bytes, free_bytes, .. } = shortfall;
        if self.report.falls_short(shortfall) {
            self.notify(|| EventKind::DoesNotFit { size, needs_bytes, free_bytes });
        }
    }

    /// Drops the outcome of a failed attempt within the attempt, which ends with that.
    pub(crate) fn drop_failed<R>(&mut self, outcome: R) {
        let entered = self.witnessed().and_then(Witnessed::enter);
        drop(outcome);
        drop(entered);
        if let Some(witnessed) = self.witnessed() {
            witnessed.end();
        }
    }

    /// Returns the call's attempts as the witness observes them, if one listens.
    #[inline]
    pub(crate) fn witnessed(&mut self) -> Option<&mut Witnessed> {
        self.stages.as_mut()?.witnessed()
    }

    #[inline]
    pub(super) fn notify<'e>(&mut self, kind: impl FnOnce() -> EventKind<'e>) {
        if let Some(stages) = &mut self.stages {
            stages.notify(kind);
        }
    }
}
