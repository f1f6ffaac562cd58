//! What the body of an attempt has left: offers of leaner plans, and the time it has spent on repeating.

use std::mem;
use std::time::Duration;

use crate::contained::contained;
use crate::leaner::Left;
use crate::text;

/// Those of the attempt that runs, and what is known of the next.
#[derive(Default)]
pub(super) struct Offers {
    left: Left,
    /// An attempt of the call, or of its call site, has offered a plan, so that the next may do so, too.
    pub(super) expected: bool,
}

impl Offers {
    /// The body has left this, besides what was left before.
    pub(super) fn add(&mut self, left: Left) {
        self.expected |= !left.offers.is_empty();
        self.left.and(left);
    }

    /// Whether the attempt has offered a plan.
    pub(super) fn are_there(&self) -> bool {
        !self.left.offers.is_empty()
    }

    /// How long the attempt has spent on repeating.
    pub(super) fn repeated(&self) -> Duration {
        self.left.repeated
    }

    /// Whether the attempt's size is worth repeating for, where its body has said so.
    pub(super) fn keeps_size(&self) -> Option<bool> {
        self.left.keeps_size
    }

    /// What was left ends with the attempt.
    pub(super) fn clear(&mut self) {
        if self.left.is_anything() {
            discard(mem::take(&mut self.left));
        }
    }

    /// Asks for a leaner plan, the last handle first.
    pub(super) fn lean(self) -> bool {
        let leans = self.left.offers.iter().rev().any(|handle| {
            contained(|| handle.lean()).unwrap_or_else(|| {
                text::print("toma: a leaner plan panicked and is taken for none");
                false
            })
        });
        discard(self.left);
        leans
    }

    /// Those of the attempt that has failed; the next begins with none.
    pub(super) fn take(&mut self) -> Self {
        Self { left: mem::take(&mut self.left), expected: self.expected }
    }
}

/// Handles are foreign: a panic of theirs must not stop the work.
fn discard(left: Left) {
    contained(|| drop(left));
}
