//! What a machine does about failures: the same size again while something may have changed, a smaller size, and
//! in the end fallback, leaving a single item out, or giving up.
//!
//! # Why
//!
//! With a fallback the rest of the call falls back at a single item that does not fit. So no item is lost.
//! A fallback for one item alone took a state of its own through the whole engine.

use super::{Failed, Learning, Machine};
use crate::classify::Class;
use crate::device::Rung;
use crate::engine::checked_policy::CheckedPolicy;
use crate::engine::rungs::Rungs;
use crate::observe::{Answer, Reason};
use crate::policy::{Bounds, Evidence};

impl Machine {
    /// The attempt failed: decides what happens next.
    pub(in crate::engine) fn failed(&mut self, policy: &CheckedPolicy<'_>, failed: &Failed) -> Answer {
        self.failures += 1;
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

    /// The next rung of the ladder.
    fn escalate(&mut self, policy: &CheckedPolicy<'_>, failed: &Failed) -> Answer {
        if failed.there.has(Rungs::GIVE_WAY) {
            // It says nothing of the size: the device was contended.
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

    /// The next rung that tries the same size again, which is spent with that.
    fn same_size(&mut self, there: Rungs) -> Option<Rung> {
        if !self.attempts_left() {
            return None;
        }
        let left = there.without(self.spent);
        let &(rung, name) = Rungs::SAME_SIZE.iter().find(|(rung, _)| left.has(*rung))?;
        self.spent = self.spent.with(rung, true);
        Some(name)
    }

    /// There is no leaner plan, or the hooks gave nothing back, so the same size would only fail again: goes on below
    /// that rung.
    ///
    /// `None` where only one more attempt can say how the piece ends, because the failure is gone.
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
        // Another size is another question.
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

    /// Takes a step that is said to fit instead of the one that the policy has chosen, unless that has failed.
    pub(in crate::engine) fn shrinks_to(&mut self, size: usize) -> Option<Answer> {
        let step = self.sizes.fit(size);
        let is_new = step != self.step && self.bounds.smallest_failure.is_none_or(|failed| step < failed);
        is_new.then(|| {
            self.step = step;
            Answer::Shrink(step)
        })
    }

    /// Begins anew from the first size, in fallback.
    fn fall_back(&mut self) -> Answer {
        (self.spent, self.expected) = (Rungs::NONE, Rungs::NONE);
        self.learn_nothing();
        (self.step, self.bounds, self.measurements) = (self.sizes.cap, Bounds::default(), None);
        if let Some(packing) = &mut self.packing {
            **packing = super::Packing::default();
        }
        Answer::FallBack(self.coming_size())
    }

    /// From here on the work is not where sizes are remembered for.
    pub(crate) fn learn_nothing(&mut self) {
        self.fallback = true;
        self.learning = Learning::beyond(usize::MAX);
    }

    /// Which rungs are there for the coming attempt, as far as can be said before it begins.
    pub(crate) fn expect(&mut self, there: Rungs) {
        self.expected = there.without(self.spent);
    }

    /// Whether the coming attempt can be retried with the device to itself.
    pub(crate) fn can_be_exclusive_yet(&self) -> bool {
        self.failures + 1 < self.max_attempts && !self.spent.has(Rungs::EXCLUSIVE)
    }

    /// Whether another attempt is allowed at this piece, once one has failed.
    fn attempts_left(&self) -> bool {
        self.failures < self.max_attempts
    }

    fn why_not(&self) -> Reason {
        if self.attempts_left() { Reason::NothingSmaller } else { Reason::MaxAttempts }
    }
}

impl Failed {
    /// Less free than was asked for, or less than a tenth of the whole.
    fn memory_is_low(&self) -> bool {
        self.now.is_some_and(|now| {
            self.requested_bytes.is_some_and(|requested| now.free_bytes < requested)
                || now.free_bytes < now.total_bytes.div_ceil(10)
        })
    }
}
