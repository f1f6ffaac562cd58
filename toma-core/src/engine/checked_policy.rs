//! A policy's answers, checked in the name of the call that asks.

use crate::call_site::Name;
use crate::policy::{Evidence, Policy};

/// The policy of a call that has failed.
#[derive(Debug)]
pub(super) struct CheckedPolicy<'a> {
    pub(super) policy: &'a dyn Policy,
    pub(super) call: &'a Name,
}

impl CheckedPolicy<'_> {
    /// Panics when the answer is not smaller: guessing a size would hide a bug.
    pub(super) fn shrink(&self, evidence: &Evidence) -> usize {
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
}
