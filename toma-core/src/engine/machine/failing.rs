//! What a machine does about failures.

use super::{Failed, Machine, Retryable, Verdict};
use crate::classify::{Class, Failure};
use crate::engine::recording;
use crate::memory::Reading;
use crate::policy::{Evidence, Policy};

impl Machine {
    /// The attempt failed: decides what happens next.
    pub(crate) fn failed(&mut self, policy: &impl Policy, failed: &Failed<'_>) -> Verdict {
        let retryable = self.retryable();
        self.piece.attempts += 1;
        match failed.failure.class {
            Class::OutOfMemory => self.shrink(policy, failed, retryable),
            Class::Transient => self.again_or_shrink(policy, failed, retryable),
            Class::Poisoned => Verdict::GiveUp("the device context is poisoned"),
            Class::Other => Verdict::GiveUp("not out of memory"),
        }
    }

    fn again_or_shrink(
        &mut self,
        policy: &impl Policy,
        failed: &Failed<'_>,
        retryable: Retryable,
    ) -> Verdict {
        if retryable.transient && !self.piece.tried_again {
            self.piece.tried_again = true;
            return Verdict::Again;
        }
        if failed.now.is_some_and(|now| memory_is_low(now, failed.failure)) {
            return self.shrink(policy, failed, retryable);
        }
        if !self.piece.tried_again {
            return Verdict::GiveUp(self.why_not());
        }
        Verdict::GiveUp("failed again at the same size, and memory is not low")
    }

    fn shrink(&mut self, policy: &impl Policy, failed: &Failed<'_>, retryable: Retryable) -> Verdict {
        if self.is_alone() {
            return self.set_aside(policy, failed);
        }
        let size = self.size();
        self.fails(size, failed);
        if !retryable.out_of_memory {
            return Verdict::GiveUp(self.why_not());
        }
        self.take_smaller(policy, failed, size);
        Verdict::Shrink(self.step)
    }

    /// Takes note that a size is too large.
    pub(super) fn fails(&mut self, size: usize, failed: &Failed<'_>) {
        if let (Some(record), Some(measured)) = (&mut self.record, failed.took.measured) {
            recording::keep_ceiling(record, size, self.bounds);
            let failure = recording::Failure::at(size, self.bounds);
            recording::failed(record, failure, measured, self.available_bytes);
        }
        self.bounds.failed(size);
        self.forget();
    }

    /// Lets the policy choose a step below the size that failed.
    pub(super) fn take_smaller(&mut self, policy: &impl Policy, failed: &Failed<'_>, size: usize) {
        let &Failed { failure, now, took } = failed;
        self.piece.tried_again = false;
        let proposal = policy.shrink(&Evidence {
            class: Some(failure.class),
            requested_bytes: failure.requested_bytes,
            free_bytes: now.map(|now| now.free_bytes),
            total_bytes: now.map(|now| now.total_bytes),
            ..self.evidence(size, took)
        });
        // Without the failure's own words, for which a loop around this one would retry.
        assert!(
            proposal < size,
            "policy {policy:?}: answered {proposal} after a failure at {size}: must be smaller"
        );
        self.step = self.sizes.fit(proposal);
        self.learning.moved = true;
    }

    fn why_not(&self) -> &'static str {
        if self.piece.attempts >= self.max_attempts {
            "max_attempts is reached"
        } else {
            "no smaller size is allowed"
        }
    }
}

/// Less free than was asked for, or less than a tenth of the whole.
fn memory_is_low(now: Reading, failure: &Failure) -> bool {
    failure.requested_bytes.is_some_and(|requested| now.free_bytes < requested)
        || now.free_bytes < now.total_bytes.div_ceil(10)
}
