//! Failures in the machine: the same size again while something may have changed, a smaller size, and in the end
//! fallback, leaving a single item out, or giving up.
//!
//! # Why
//!
//! With a fallback, the rest of the call falls back at a single item that does not fit, so no item is lost. A
//! fallback for one item alone would need a state of its own in the whole engine.

use super::{Failed, Learning, Machine};
use crate::classify::Class;
use crate::device::Rung;
use crate::engine::checked_policy::CheckedPolicy;
use crate::engine::rungs::Rungs;
use crate::observe::{Answer, Reason};
use crate::policy::{Bounds, Evidence};

impl Machine {
    /// Decides how the call continues after a failed attempt.
    pub(in crate::engine) fn failed(&mut self, policy: &CheckedPolicy<'_>, failed: &Failed) -> Answer {
        self.failures += 1;
        self.steady = 0;
        match failed.class {
            Class::OutOfMemory => self.escalate(policy, failed),
            Class::Transient => self.again_or_escalate(policy, failed),
            Class::Poisoned => Answer::GiveUp(Reason::Poisoned),
            Class::Other => Answer::GiveUp(Reason::NotOutOfMemory),
        }
    }

    fn again_or_escalate(&mut self, policy: &CheckedPolicy<'_>, failed: &Failed) -> Answer {
        let tried_again = self.spent.has(Rungs::TRANSIENT);
        if self.attempts_left() && !tried_again {
            self.spent = self.spent.with(Rungs::TRANSIENT, true);
            return Answer::Again(Rung::Transient);
        }
        if failed.memory_is_low() {
            return self.escalate(policy, failed);
        }
        Answer::GiveUp(if tried_again { Reason::FailedAgain } else { self.why_not() })
    }

    /// Takes the next rung of the ladder.
    fn escalate(&mut self, policy: &CheckedPolicy<'_>, failed: &Failed) -> Answer {
        if failed.there.has(Rungs::GIVE_WAY) {
            // This is no evidence about the size: the device was contended.
            return Answer::GiveUp(Reason::GaveWay);
        }
        if let Some(rung) = self.same_size(failed.there) {
            return Answer::Again(rung);
        }
        if self.attempts_left() && !self.is_at_the_floor() {
            return self.shrink(policy, failed);
        }
        self.fails(failed);
        if self.attempts_left() && failed.there.has(Rungs::FALLBACK) {
            return self.fall_back();
        }
        if self.is_single_item() {
            return self.leave_out();
        }
        Answer::GiveUp(self.why_not())
    }

    /// Returns the next rung that retries the same size, and marks it as spent.
    fn same_size(&mut self, there: Rungs) -> Option<Rung> {
        if !self.attempts_left() {
            return None;
        }
        let left = there.without(self.spent);
        let &(rung, name) = Rungs::SAME_SIZE.iter().find(|(rung, _)| left.has(*rung))?;
        self.spent = self.spent.with(rung, true);
        Some(name)
    }

    /// Continues after a rung that gave nothing (no leaner plan, or hooks that freed nothing), because the same size
    /// would only fail again.
    ///
    /// Returns `None` if only one more attempt can decide how the piece ends, because the failure has been dropped.
    pub(in crate::engine) fn gave_nothing(
        &mut self,
        policy: &CheckedPolicy<'_>,
        failed: &Failed,
    ) -> Option<Answer> {
        if let Some(rung) = self.same_size(failed.there) {
            return Some(Answer::Again(rung));
        }
        if !self.is_at_the_floor() {
            return Some(self.shrink(policy, failed));
        }
        if !failed.there.has(Rungs::FALLBACK) {
            return None;
        }
        self.fails(failed);
        Some(self.fall_back())
    }

    /// Lets the policy choose a step below the size that failed.
    fn shrink(&mut self, policy: &CheckedPolicy<'_>, failed: &Failed) -> Answer {
        let &Failed { class, requested_bytes, now, took, .. } = failed;
        self.fails(failed);
        // At another size the rungs may help again.
        self.spent = self.spent.within(Rungs::ONCE_A_PIECE);
        self.learning.moved = !self.fallback;
        if let Some(before) = self.doubted.take().filter(|&before| before < self.size()) {
            self.step = before;
            return Answer::Shrink(before);
        }
        let proposal = policy.shrink(&Evidence {
            class: Some(class),
            requested_bytes,
            free_bytes: now.map(|now| now.free_bytes),
            total_bytes: now.map(|now| now.total_bytes),
            ..self.evidence(self.size(), took)
        });
        self.step = self.sizes.fit(proposal);
        Answer::Shrink(self.step)
    }

    /// Replaces the step that the policy has chosen by one that is predicted to fit, unless that has failed.
    pub(in crate::engine) fn shrinks_to(&mut self, size: usize) -> Option<Answer> {
        let step = self.sizes.fit(size);
        let is_new = step != self.step && self.bounds.smallest_failure.is_none_or(|failed| step < failed);
        is_new.then(|| {
            self.step = step;
            Answer::Shrink(step)
        })
    }

    /// Starts again from the first size, in fallback.
    fn fall_back(&mut self) -> Answer {
        (self.spent, self.expected) = (Rungs::NONE, Rungs::NONE);
        self.learn_nothing();
        (self.step, self.bounds, self.measurements) = (self.sizes.cap, Bounds::default(), None);
        if let Some(packing) = &mut self.packing {
            **packing = super::Packing::default();
        }
        Answer::FallBack(self.coming_size())
    }

    /// Stops learning, because in fallback the work is not in the memory that sizes are remembered for.
    pub(crate) fn learn_nothing(&mut self) {
        self.fallback = true;
        self.learning = Learning::beyond(usize::MAX);
    }

    /// Sets the rungs that are available for the next attempt, as far as known before it begins.
    pub(crate) fn expect(&mut self, there: Rungs) {
        self.expected = there.without(self.spent);
    }

    /// True if the next attempt can be retried with the device to itself.
    pub(crate) fn can_be_exclusive_yet(&self) -> bool {
        self.failures + 1 < self.max_attempts && !self.spent.has(Rungs::EXCLUSIVE)
    }

    /// True if another attempt at this piece is allowed after a failure.
    fn attempts_left(&self) -> bool {
        self.failures < self.max_attempts
    }

    fn why_not(&self) -> Reason {
        if self.attempts_left() { Reason::NothingSmaller } else { Reason::MaxAttempts }
    }
}

impl Failed {
    /// True if less is free than the failed allocation requested, or less than a tenth of the total.
    fn memory_is_low(&self) -> bool {
        self.now.is_some_and(|now| {
            self.requested_bytes.is_some_and(|requested| now.free_bytes < requested)
                || now.free_bytes < now.total_bytes.div_ceil(10)
        })
    }
}
