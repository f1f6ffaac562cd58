//! What the body of an attempt has left: offers of leaner plans, and the time it has spent on repeating.

use std::time::Duration;

use crate::contained::contained;
use crate::leaner::Left;
use crate::text;

/// Those of the attempt that runs, and what is known of the next.
#[derive(Default)]
pub(super) struct Offers {
    left: Option<Box<Left>>,
    /// An attempt of the call, or of its call site, has offered a plan, so that the next may do so, too.
    pub(super) expected: bool,
}

impl Offers {
    /// The body has left this, besides what was left before.
    pub(super) fn add(&mut self, left: Left) {
        self.expected |= !left.offers.is_empty();
        Left::add(&mut self.left, left);
    }

    /// Whether the attempt has offered a plan.
    pub(super) fn are_there(&self) -> bool {
        self.left.as_ref().is_some_and(|left| !left.offers.is_empty())
    }

    /// How long the attempt has spent on repeating.
    pub(super) fn repeated(&self) -> Duration {
        self.left.as_ref().map(|left| left.repeated).unwrap_or_default()
    }

    /// Whether the attempt's size is worth repeating for, where its body has said so.
    pub(super) fn keeps_size(&self) -> Option<bool> {
        self.left.as_ref()?.keeps_size
    }

    /// What was left ends with the attempt.
    #[inline]
    pub(super) fn clear(&mut self) {
        if let Some(left) = self.left.take() {
            discard(left);
        }
    }

    /// What the attempt has left that has failed; the next begins with nothing.
    pub(super) fn take(&mut self) -> Option<Box<Left>> {
        self.left.take()
    }
}

/// Asks for a leaner plan, the last handle first.
pub(super) fn lean(left: Box<Left>) -> bool {
    let leans = left.offers.iter().rev().any(|handle| {
        contained(|| handle.lean()).unwrap_or_else(|| {
            text::print("toma: a leaner plan panicked and is taken for none");
            false
        })
    });
    discard(left);
    leans
}

/// Handles are foreign: a panic of theirs must not stop the work.
#[cold]
fn discard(left: Box<Left>) {
    contained(|| drop(left));
}
