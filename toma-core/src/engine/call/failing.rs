//! What a call does about failures.

use super::Call;
use super::memory::is_about_memory;
use crate::classify::{Class, Failure};
use crate::device::{self, Pressure, Rung};
use crate::engine::attempt::Attempt;
use crate::engine::checked_policy::CheckedPolicy;
use crate::engine::extras::Extras;
use crate::engine::machine::Failed;
use crate::engine::rungs::Rungs;
use crate::observe::witness::{self, Witnessed};
use crate::observe::{Answer, EventKind, Reason, Shortfall};
use crate::policy::Policy;
use crate::reserve;
use crate::shield::{self, Panic, Retryable};

impl Call<'_> {
    /// The attempt failed: says what happens next. The failed values are still there, because a failure that is
    /// not tried again goes through unchanged.
    #[cold]
    pub(crate) fn failed(
        &mut self,
        policy: &dyn Policy,
        attempt: &mut Attempt,
        failure: &Failure,
        panic: Option<&Panic>,
    ) -> Answer {
        self.time_from_now_on();
        self.injected |= attempt.injected;
        if self.machine.doubted.is_some() {
            self.doubts.fails();
        }
        let took = self.took(attempt);
        if let Some(told) = self.witnessed() {
            told.leave();
        }
        let (step, size) = (self.machine.step, self.machine.size());
        self.report_worked(step);
        self.report.failed(size, failure.class, took.elapsed);
        let now = self.memory.read_after(failure.class).filter(|_| self.why_over() != Some(Reason::Disabled));
        let &Failure { class, requested_bytes, .. } = failure;
        let there = self.rungs_after(attempt, class, panic);
        let failed = Failed { class, requested_bytes, now, took, there };
        self.contradicts(attempt, &failed, size);
        let lacked = self.machine.lacked(&failed);
        let answer = self.answer(policy, attempt, &failed);
        // Once nothing is measured any more, because the answer takes memory of its own.
        if class == Class::OutOfMemory {
            self.report.fills(witness::filled());
        }
        if let Some(told) = self.witnessed() {
            told.failed(class);
        }
        self.tell_failed(attempt, failure, &failed, size);
        let foreseen = took.measured.and_then(|measured| self.machine.shortfall(&measured));
        if let Some(shortfall) = lacked.or(foreseen) {
            self.tell_shortfall(shortfall);
        }
        self.take_rung(attempt, answer, failed);
        self.tell_answer(size, answer);
        self.owes(failure, answer);
        let to = self.machine.step;
        if matches!(answer, Answer::LeaveOut { .. }) && to != step {
            self.tell(|| EventKind::Probe { from: step, to });
        }
        answer
    }

    /// A history is worth the clock.
    pub(super) fn time_from_now_on(&mut self) {
        self.extras.get_or_insert_with(Extras::none).times = true;
    }

    /// What was printed because nothing was promised must be passed on: a rung that came meanwhile is too late for
    /// it. A panic can give way where the enclosing attempt keeps it from being printed.
    fn rungs_after(&self, attempt: &Attempt, class: Class, panic: Option<&Panic>) -> Rungs {
        let Some(extras) = self.extras.as_ref().filter(|_| !self.machine.fallback) else {
            return Rungs::NONE;
        };
        let rungs = extras.rungs_after(attempt);
        match panic {
            Some(panic) if panic.was_printed() && !attempt.retryable.covers(class) => Rungs::NONE,
            Some(_) if !shield::would_retry().covers(class) => rungs.without(Rungs::GIVE_WAY),
            _ => rungs,
        }
    }

    fn answer(&mut self, policy: &dyn Policy, attempt: &Attempt, failed: &Failed) -> Answer {
        // What the machine would retry and the attempt was not promised began too late.
        let promised_nothing = attempt.retryable == Retryable::NOTHING;
        let began_late = promised_nothing && self.machine.retryable() != Retryable::NOTHING;
        let is_whole = self.extras.as_ref().is_some_and(Extras::is_whole);
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

    /// Takes the rung that was decided on, as far as it can be taken before the failure is gone.
    fn take_rung(&mut self, attempt: &Attempt, answer: Answer, failed: Failed) {
        let Some(extras) = &mut self.extras else { return };
        match answer {
            Answer::GiveUp(Reason::GaveWay) => extras.turns.give_way(),
            Answer::LeaveOut { .. } => extras.turns.piece_done(&attempt.hold),
            Answer::Again(Rung::Leaner | Rung::Hooks) => {
                extras.again.get_or_insert_default().asks = Some(failed);
            }
            _ => {}
        }
        if answer != Answer::Again(Rung::Leaner)
            && let Some(again) = &mut extras.again
        {
            again.end_attempt();
        }
    }

    /// Gives cached memory and the turn back; runs after the failed values are gone and undone.
    pub(crate) fn release(&mut self, policy: &dyn Policy, attempt: Attempt, answer: Answer) {
        if let Some(device) = self.memory.device {
            let _inside = attempt.enter();
            device.release_cached_memory();
        }
        reserve::hold();
        if let Answer::Shrink(_) = answer {
            self.foresees_smaller();
        }
        let (size, hold) = (self.machine.size(), attempt.hold);
        let Some(extras) = &mut self.extras else { return };
        if extras.is_agreed() {
            extras.turns.after_failure(hold, answer);
        } else {
            extras.turns.before_vote(&hold, answer);
            drop(hold);
        }
        if let Some(failed) = extras.again.as_mut().and_then(|again| again.asks.take()) {
            let _aside = extras.turns.aside();
            self.ask(policy, &failed, (size, answer));
        }
        if self.machine.fallback
            && let Some(extras) = &mut self.extras
        {
            extras.fall_back();
        }
    }

    /// Asks those whose rung was taken, and goes on below while they have nothing to give.
    fn ask(&mut self, policy: &dyn Policy, failed: &Failed, (size, mut answer): (usize, Answer)) {
        while !self.is_given(failed, size, answer) {
            let policy = CheckedPolicy { policy, call: self.report.name() };
            let Some(next) = self.machine.gave_nothing(&policy, failed) else { return };
            self.tell_answer(size, next);
            answer = next;
        }
    }

    /// Whether the answer holds once its rung was asked.
    fn is_given(&mut self, failed: &Failed, size: usize, answer: Answer) -> bool {
        match answer {
            Answer::Again(Rung::Leaner) => self.leans(),
            Answer::Again(Rung::Hooks) => {
                let free_bytes = failed.now.map(|now| now.free_bytes);
                let device = self.memory.source().name();
                device::ask(&Pressure { device, requested_bytes: failed.requested_bytes, free_bytes, size })
            }
            _ => true,
        }
    }

    /// All others are done, and a single item of this cost does not fit: its failure goes through.
    pub(crate) fn gives_up_left_out(&mut self, cost: usize) {
        let reason = Reason::LeftOut;
        self.report.gives_up(reason);
        self.tell(|| EventKind::Answered { size: cost, answer: Answer::GiveUp(reason) });
    }

    fn tell_failed(&mut self, attempt: &Attempt, failure: &Failure, failed: &Failed, size: usize) {
        let &Failed { class, requested_bytes, now, took, .. } = failed;
        let (start, end) = (attempt.piece.start, attempt.piece.end);
        let Some(extras) = &mut self.extras else { return };
        extras.tell(|| EventKind::Failed {
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

    pub(super) fn tell_answer(&mut self, size: usize, answer: Answer) {
        self.report.answered(answer);
        self.tell(|| EventKind::Answered { size, answer });
    }

    /// As soon as it is known that even the smallest size does not fit.
    pub(super) fn tell_shortfall(&mut self, shortfall: Shortfall) {
        let Shortfall { size, needs_bytes, free_bytes, .. } = shortfall;
        if self.report.falls_short(shortfall) {
            self.tell(|| EventKind::DoesNotFit { size, needs_bytes, free_bytes });
        }
    }

    /// Drops what a failed attempt came to, within the attempt, which has ended with that.
    pub(crate) fn drop_failed<R>(&mut self, outcome: R) {
        let entered = self.witnessed().and_then(Witnessed::enter);
        drop(outcome);
        drop(entered);
        if let Some(told) = self.witnessed() {
            told.end();
        }
    }

    /// The call's attempts as the witness is told of them, if it is.
    #[inline]
    pub(crate) fn witnessed(&mut self) -> Option<&mut Witnessed> {
        self.extras.as_mut()?.witnessed()
    }

    #[inline]
    pub(super) fn tell<'e>(&mut self, kind: impl FnOnce() -> EventKind<'e>) {
        if let Some(extras) = &mut self.extras {
            extras.tell(kind);
        }
    }
}
