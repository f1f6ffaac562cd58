//! A policy's answers, checked in the name of the call that asks.

use crate::observe::Name;
use crate::policy::{Evidence, Measures, Policy};

/// The policy of a call that has failed.
#[derive(Debug)]
pub(crate) struct Asked<'a, P> {
    pub(crate) policy: &'a P,
    pub(crate) by: &'a Name,
}

impl<P: Policy> Policy for Asked<'_, P> {
    /// Panics when the answer is not smaller: guessing a size would hide a bug.
    fn shrink(&self, evidence: &Evidence) -> usize {
        let (policy, size) = (self.policy, evidence.size);
        let answer = policy.shrink(evidence);
        if answer >= size {
            // Without the failure's own words, for which a loop around this one would retry.
            self.by.refuse(format_args!(
                "policy {policy:?}: answered {answer} after a failure at {size}: must be smaller"
            ));
        }
        answer
    }

    fn advance(&self, evidence: &Evidence) -> usize {
        self.policy.advance(evidence)
    }

    fn measures(&self) -> Measures {
        self.policy.measures()
    }
}
