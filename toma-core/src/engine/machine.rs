//! The loop as a plain state machine: what to try next, and what came back.
//!
//! Nothing here runs user code except the pure policy, reads a clock, or touches shared state, so
//! every rule of the loop can be tested against a script of failures.

use std::ops::Range;

use super::sizes::Sizes;
use crate::classify::{Class, Failure};
use crate::memory::Reading;
use crate::policy::{Bounds, Evidence, Policy};

/// Where one call stands. Positions count items from 0; forms add their own offset.
#[derive(Debug)]
pub(crate) struct Machine {
    sizes: Sizes,
    position: usize,
    end: usize,
    step: usize,
    bounds: Bounds,
    max_attempts: usize,
    single: bool,
    piece: PieceState,
    learning: Learning,
}

/// What happened on the current piece; starts anew with each piece.
#[derive(Debug, Default)]
struct PieceState {
    attempts: usize,
    tried_again: bool,
}

/// What this call has learned: a step settles when the policy changed it and it then succeeded.
#[derive(Debug, Default)]
struct Learning {
    changed: bool,
    settled: Option<usize>,
}

/// How much work there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One piece of whatever size succeeds.
    Batch,
    /// This many items, piece by piece.
    Items(usize),
}

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Try the same size once more.
    Again,
    /// Try this smaller size.
    Shrink(usize),
    /// Let the failure through, for this reason.
    GiveUp(&'static str),
}

/// Which failures of the coming attempt would be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retryable {
    pub(crate) out_of_memory: bool,
    pub(crate) transient: bool,
}

impl Retryable {
    pub(crate) const NOTHING: Self = Self { out_of_memory: false, transient: false };
}

impl Machine {
    #[inline]
    pub(crate) fn new(extent: Extent, sizes: Sizes, max_attempts: usize) -> Self {
        let end = match extent {
            Extent::Batch => usize::MAX,
            Extent::Items(count) => count,
        };
        Self {
            sizes,
            position: 0,
            end,
            step: sizes.cap,
            bounds: Bounds::default(),
            max_attempts,
            single: extent == Extent::Batch,
            piece: PieceState::default(),
            learning: Learning::default(),
        }
    }

    /// Starts from what an earlier call learned; the policy may probe beyond it.
    pub(crate) fn start_from(&mut self, settled: usize, bounds: Bounds, policy: &impl Policy) {
        self.step = self.sizes.fit(settled);
        self.bounds = bounds;
        self.learning.changed = self.advance(policy).is_some();
    }

    /// The items of the coming attempt; empty when all is done.
    #[inline]
    pub(crate) fn piece(&self) -> Range<usize> {
        self.position..self.end_of_piece()
    }

    /// Where the coming piece ends: the one place that turns position and step into an end.
    #[inline]
    fn end_of_piece(&self) -> usize {
        self.position + self.step.min(self.end - self.position)
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.position == self.end
    }

    /// Items that succeeded.
    #[inline]
    pub(crate) fn done(&self) -> usize {
        self.position
    }

    #[inline]
    pub(crate) fn step(&self) -> usize {
        self.step
    }

    /// The largest size this call may use.
    pub(crate) fn cap(&self) -> usize {
        self.sizes.cap
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The step worth remembering, once it has succeeded.
    #[inline]
    pub(crate) fn settled(&self) -> Option<usize> {
        self.learning.settled
    }

    /// Settled before each attempt, so that a panic hook may rely on it.
    #[inline]
    pub(crate) fn retryable(&self) -> Retryable {
        let attempts_left = self.piece.attempts + 1 < self.max_attempts;
        let can_shrink = self.sizes.can_shrink(self.piece().len());
        Retryable {
            out_of_memory: attempts_left && can_shrink,
            transient: attempts_left && (can_shrink || !self.piece.tried_again),
        }
    }

    /// The piece succeeded: moves on, and returns the new step when the policy changes it.
    #[inline]
    pub(crate) fn succeeded(&mut self, policy: &impl Policy) -> Option<usize> {
        let size = self.piece().len();
        self.bounds.succeeded(size);
        if self.learning.changed && size == self.step {
            self.learning.settled = Some(size);
        }
        self.position += size;
        if self.single {
            self.end = self.position;
        }
        self.piece = PieceState::default();
        if self.is_done() {
            return None;
        }
        let changed = self.advance(policy);
        self.learning.changed |= changed.is_some();
        changed
    }

    /// The attempt failed: decides what happens next. `now` is the memory after clean-up.
    pub(crate) fn failed(
        &mut self,
        policy: &impl Policy,
        failure: &Failure,
        now: Option<Reading>,
    ) -> Verdict {
        let retryable = self.retryable();
        self.piece.attempts += 1;
        let verdict = match failure.class {
            Class::OutOfMemory => self.shrink(policy, failure, now, retryable),
            Class::Transient => self.again_or_shrink(policy, failure, now, retryable),
            Class::Poisoned => Verdict::GiveUp("the device context is poisoned"),
            Class::Other => Verdict::GiveUp("not out of memory"),
        };
        if failure.class == Class::OutOfMemory && matches!(verdict, Verdict::GiveUp(_)) {
            self.give_up();
        }
        verdict
    }

    /// A total failure must not pin later calls to a size that failed in the end.
    pub(crate) fn give_up(&mut self) {
        self.learning.settled = None;
    }

    fn again_or_shrink(
        &mut self,
        policy: &impl Policy,
        failure: &Failure,
        now: Option<Reading>,
        retryable: Retryable,
    ) -> Verdict {
        if !retryable.transient {
            return Verdict::GiveUp(self.why_not());
        }
        if !self.piece.tried_again {
            self.piece.tried_again = true;
            return Verdict::Again;
        }
        if now.is_some_and(|now| memory_is_low(now, failure)) {
            return self.shrink(policy, failure, now, retryable);
        }
        Verdict::GiveUp("failed again at the same size, and memory is not low")
    }

    fn shrink(
        &mut self,
        policy: &impl Policy,
        failure: &Failure,
        now: Option<Reading>,
        retryable: Retryable,
    ) -> Verdict {
        let size = self.piece().len();
        self.bounds.failed(size);
        if !retryable.out_of_memory {
            return Verdict::GiveUp(self.why_not());
        }
        let proposal = policy.shrink(&self.evidence(size, Some(failure), now));
        assert!(
            proposal < size,
            "policy {policy:?}: answered {proposal} after a failure at {size}: must be smaller ({})",
            failure.message
        );
        self.step = self.sizes.fit(proposal);
        self.learning = Learning { changed: true, settled: None };
        Verdict::Shrink(self.step)
    }

    fn why_not(&self) -> &'static str {
        if self.piece.attempts >= self.max_attempts {
            "max_attempts is reached"
        } else {
            "no smaller size is allowed"
        }
    }

    /// Asks the policy for the next step; returns it when it differs.
    #[inline]
    fn advance(&mut self, policy: &impl Policy) -> Option<usize> {
        let next = self.sizes.fit(policy.advance(&self.evidence(self.step, None, None)));
        let changed = (next != self.step).then_some(next);
        self.step = next;
        changed
    }

    #[inline]
    fn evidence(&self, size: usize, failure: Option<&Failure>, now: Option<Reading>) -> Evidence {
        Evidence {
            size,
            step: self.step,
            class: failure.map(|failure| failure.class),
            requested_bytes: failure.and_then(|failure| failure.requested_bytes),
            free_bytes: now.map(|now| now.free_bytes),
            total_bytes: now.map(|now| now.total_bytes),
            peak_bytes: None,
            elapsed: None,
            remaining: self.end - self.position,
            bounds: self.bounds,
            floor: self.sizes.floor,
            cap: self.sizes.cap,
            multiple_of: self.sizes.multiple_of,
        }
    }
}

/// Less free than was asked for, or less than a tenth of the whole.
fn memory_is_low(now: Reading, failure: &Failure) -> bool {
    failure.requested_bytes.is_some_and(|requested| now.free_bytes < requested)
        || now.free_bytes < now.total_bytes / 10
}
