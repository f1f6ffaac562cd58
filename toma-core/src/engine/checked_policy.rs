//! Checks a policy's answers. A panic about them names the call that asks.

use crate::call_site::Name;
use crate::policy::{Evidence, Policy};

/// Policy of a call, to be asked after a failure.
#[derive(Debug)]
pub(super) struct CheckedPolicy<'a> {
    pub(super) policy: &'a dyn Policy,
    pub(super) call: &'a Name,
}

impl CheckedPolicy<'_> {
    /// Asks the policy. Panics if the answer is not smaller, because guessing a size would hide a bug.
    pub(super) fn shrink(&self, evidence: &Evidence) -> usize {
        let (policy, size) = (self.policy, evidence.size);
        let answer = policy.shrink(evidence);
        if answer >= size {
            // The message leaves out the failure's text, because an enclosing loop would retry on it.
            self.call.refuse(format_args!(
                "policy {policy:?}: answered {answer} after a failure at {size}: must be smaller"
            ));
        }
        answer
    }
}
