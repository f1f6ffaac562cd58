//! What a machine does about failures.

use super::{Failed, Machine, Rungs, Verdict};
use crate::classify::{Class, Failure};
use crate::engine::recording;
use crate::ladder::Rung;
use crate::memory::Reading;
use crate::observe::Reason;
use crate::policy::{Evidence, Policy};

impl Machine {
    /// The attempt failed: decides what happens next.
    pub(crate) fn failed(&mut self, policy: &impl Policy, failed: &Failed<'_>) -> Verdict {
        self.piece.attempts += 1;
        match failed.failure.class {
            Class::OutOfMemory => self.escalate(policy, failed),
            Class::Transient => self.again_or_escalate(policy, failed),
            Class::Poisoned => Verdict::GiveUp(Reason::Poisoned),
            Class::Other => Verdict::GiveUp(Reason::NotOutOfMemory),
        }
    }

    fn again_or_escalate(&mut self, policy: &impl Policy, failed: &Failed<'_>) -> Verdict {
        let tried_again = self.piece.spent.has(Rungs::TRANSIENT);
        if self.attempts_left() && !tried_again {
            self.piece.spend(Rungs::TRANSIENT);
            return Verdict::Again(Rung::Transient);
        }
        if failed.now.is_some_and(|now| memory_is_low(now, failed.failure)) {
            return self.escalate(policy, failed);
        }
        Verdict::GiveUp(if tried_again { Reason::FailedAgain } else { self.why_not() })
    }

    /// The next rung of the ladder.
    fn escalate(&mut self, policy: &impl Policy, failed: &Failed<'_>) -> Verdict {
        if let Some(rung) = self.same_size(failed.there) {
            return Verdict::Again(rung);
        }
        let falls_back = self.attempts_left() && failed.there.has(Rungs::FALLBACK);
        if self.attempts_left() && !self.is_at_the_floor() {
            return self.take_less(policy, failed);
        }
        if failed.there.has(Rungs::GIVE_WAY) && (falls_back || self.is_alone()) {
            self.fails(self.size(), failed);
            return Verdict::GiveUp(Reason::GaveWay);
        }
        if falls_back {
            return self.fall_back(failed);
        }
        if self.is_alone() {
            return self.set_aside(failed);
        }
        self.fails(self.size(), failed);
        Verdict::GiveUp(self.why_not())
    }

    /// Goes on with less at a time: a smaller size, or where that cannot be, fewer items.
    pub(super) fn take_less(&mut self, policy: &impl Policy, failed: &Failed<'_>) -> Verdict {
        let size = self.size();
        if !self.sizes.can_shrink(size) {
            return self.take_fewer();
        }
        self.fails(size, failed);
        self.take_smaller(policy, failed, size);
        Verdict::Shrink(self.step)
    }

    /// Takes note that a size is too large.
    pub(super) fn fails(&mut self, size: usize, failed: &Failed<'_>) {
        self.doubt();
        if let (Some(measurements), Some(measured)) = (&mut self.measurements, failed.took.measured) {
            recording::keep_ceiling(measurements, size, self.bounds);
            let failure = recording::Failure::at(size, self.bounds);
            recording::failed(measurements, failure, measured, self.available_bytes);
        }
        self.bounds.failed(size);
        self.forget();
    }

    /// Lets the policy choose a step below the size that failed.
    fn take_smaller(&mut self, policy: &impl Policy, failed: &Failed<'_>, size: usize) {
        let &Failed { failure, now, took, .. } = failed;
        self.renew_rungs();
        let proposal = policy.shrink(&Evidence {
            class: Some(failure.class),
            requested_bytes: failure.requested_bytes,
            free_bytes: now.map(|now| now.free_bytes),
            total_bytes: now.map(|now| now.total_bytes),
            ..self.evidence(size, took)
        });
        debug_assert!(proposal < size, "whoever asks has checked the answer");
        self.step = self.sizes.fit(proposal);
        self.learning.moved = !self.fallen;
    }

    fn why_not(&self) -> Reason {
        if self.attempts_left() { Reason::NothingSmaller } else { Reason::MaxAttempts }
    }
}

/// Less free than was asked for, or less than a tenth of the whole.
fn memory_is_low(now: Reading, failure: &Failure) -> bool {
    failure.requested_bytes.is_some_and(|requested| now.free_bytes < requested)
        || now.free_bytes < now.total_bytes.div_ceil(10)
}
