//! A policy's answers, checked in the name of the call that asks.

use crate::call_site::Name;
use crate::policy::{Evidence, Needs, Policy};

/// The policy of a call that has failed.
#[derive(Debug)]
pub(crate) struct CheckedPolicy<'a> {
    pub(crate) policy: &'a dyn Policy,
    pub(crate) call: &'a Name,
}

impl Policy for CheckedPolicy<'_> {
    /// Panics when the answer is not smaller: guessing a size would hide a bug.
    fn shrink(&self, evidence: &Evidence) -> usize {
        let (policy, size) = (self.policy, evidence.size);
        let answer = policy.shrink(evidence);
        if answer >= size {
            // Without the failure's own words, for which an enclosing loop would retry.
            self.call.refuse(format_args!(
                "policy {policy:?}: answered {answer} after a failure at {size}: must be smaller"
            ));
        }
        answer
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        self.policy.advance(evidence)
    }

    fn is_fixed(&self) -> bool {
        self.policy.is_fixed()
    }

    fn needs(&self) -> Needs {
        self.policy.needs()
    }
}
