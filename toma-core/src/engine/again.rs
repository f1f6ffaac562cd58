//! What the same size may be tried again with: leaner plans that the body of an attempt has offered, and hooks.
//!
//! # Why
//!
//! Hooks that give nothing back cost no attempt: the call goes on below their rung. At the floor without
//! fallback one attempt follows, because the failure that would go through is gone.

use std::mem;

use super::machine::Failed;
use crate::contained::contained;
use crate::device::Rung;
use crate::leaner::{Action, Left};
use crate::observe::Answer;
use crate::text;

/// What a call has of that; most have nothing, so it is in a box.
#[derive(Default)]
pub(super) struct Again {
    /// What the body of the attempt has left.
    left: Option<Left>,
    /// An attempt of the call, or of its call site, has offered a plan, so that the next may do so, too.
    pub(super) expects_offers: bool,
    /// A failure that leaner plans or hooks are to be asked about.
    pub(super) asks: Option<Failed>,
}

impl Again {
    /// The body has left this, besides what it left before.
    pub(super) fn add(&mut self, later: Left) {
        self.expects_offers |= !later.offers.is_empty();
        self.left.get_or_insert_default().add(later);
    }

    /// Whether the attempt has offered a plan.
    pub(super) fn is_offered(&self) -> bool {
        self.left.as_ref().is_some_and(|left| !left.offers.is_empty())
    }

    /// What the body has left so far.
    pub(super) fn left(&self) -> Option<&Left> {
        self.left.as_ref()
    }

    /// What the body has left ends with its attempt, which succeeded; returns what is to be run for that.
    pub(super) fn succeeded(&mut self) -> Vec<Action> {
        let mut left = self.left.take();
        let actions = left.as_mut().map(|left| mem::take(&mut left.when_agreed));
        discard(left);
        actions.unwrap_or_default()
    }

    /// The attempt failed: what its body has left ends with it, unless that is asked for a leaner plan.
    pub(super) fn after_failure(&mut self, answer: Answer) {
        if answer != Answer::Again(Rung::Leaner) {
            discard(self.left.take());
        }
    }

    /// What the failed attempt has left; the next begins with nothing.
    pub(super) fn take_left(&mut self) -> Option<Left> {
        self.left.take()
    }
}

/// Asks for a leaner plan, the last handle first.
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

/// Handles are foreign: a panic of theirs must not stop the work.
fn discard(left: Option<Left>) {
    contained(|| drop(left));
}
