//! Means to try the same size again: leaner plans that the attempt's body has offered, and hooks.
//!
//! # Why
//!
//! Hooks that free nothing cost no attempt: the call continues with the next rung. At the floor without fallback one
//! attempt follows, because the failure that would be passed on has been dropped.

use std::mem;

use super::machine::Failed;
use crate::contained::contained;
use crate::device::Rung;
use crate::leaner::{Action, Left};
use crate::observe::Answer;
use crate::text;

/// Leaner plans and hooks of a call. In a box, because most calls have none.
#[derive(Default)]
pub(super) struct Again {
    /// Records that the attempt's body has left. The next attempt begins with none.
    pub(super) left: Option<Left>,
    /// True if an attempt of the call, or of its call site, has offered a plan, so that the next may do so, too.
    pub(super) expects_offers: bool,
    /// A failure about which leaner plans or hooks are still to be asked.
    pub(super) asks: Option<Failed>,
}

impl Again {
    /// Adds records that the body has left later.
    pub(super) fn add(&mut self, later: Left) {
        self.expects_offers |= !later.offers.is_empty();
        self.left.get_or_insert_default().add(later);
    }

    /// True if the attempt has offered a plan.
    pub(super) fn is_offered(&self) -> bool {
        self.left.as_ref().is_some_and(|left| !left.offers.is_empty())
    }

    /// Drops the records of an attempt that succeeded. Returns the actions to run for that.
    pub(super) fn succeeded(&mut self) -> Vec<Action> {
        let mut left = self.left.take();
        let actions = left.as_mut().map(|left| mem::take(&mut left.when_agreed));
        discard(left);
        actions.unwrap_or_default()
    }

    /// Drops the records of an attempt that failed, unless they will be asked for a leaner plan.
    pub(super) fn after_failure(&mut self, answer: Answer) {
        if answer != Answer::Again(Rung::Leaner) {
            discard(self.left.take());
        }
    }
}

/// Asks for a leaner plan, the last handle first. Returns true if there is one.
pub(super) fn lean(left: Left) -> bool {
    let leans = left.offers.iter().rev().any(|handle| {
        contained(|| handle.lean()).unwrap_or_else(|| {
            text::print("toma: a leaner plan panicked and is taken for none");
            false
        })
    });
    discard(Some(left));
    leans
}

/// Drops records. Handles are user code, and a panic in them must not stop the work.
fn discard(left: Option<Left>) {
    contained(|| drop(left));
}
