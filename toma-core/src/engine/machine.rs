//! The loop as a plain state machine: what to try next, and what came back.
//!
//! Nothing here runs user code except the pure policy, reads a clock, or touches shared state, so
//! every rule of the loop can be tested against a script of failures.

mod measured;

use std::ops::Range;
use std::time::Duration;

use super::gauge::Measured;
use super::recording;
use super::sizes::Sizes;
use crate::classify::{Class, Failure};
use crate::memory::Reading;
use crate::policy::{Bounds, Evidence, Policy, Record};

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
    /// The step stays as it is, whatever the policy thinks.
    frozen: bool,
    piece: PieceState,
    learning: Learning,
    /// What is measured, where the policy asks for anything.
    record: Option<Record>,
    /// What was available when the step in force was chosen, where the policy asks for it.
    available_bytes: Option<u64>,
}

/// What is known from earlier calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) settled: usize,
    pub(crate) bounds: Bounds,
}

/// What happened on the current piece; starts anew with each piece.
#[derive(Debug, Default)]
struct PieceState {
    attempts: usize,
    /// A transient failure has had its second attempt at this size.
    tried_again: bool,
}

/// What this call has learned: the step in force after a shrink settles once it has succeeded, and
/// without a failure only a step beyond all that worked before, so that no later call is lowered.
/// A step that a measuring policy has changed settles in any case: it has its reasons.
#[derive(Debug)]
struct Learning {
    moved: bool,
    /// The largest step known to work: where the call started, then what it settled.
    best: usize,
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

/// A failed attempt: the failure, the memory once it had failed, and what was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed<'a> {
    pub(crate) failure: &'a Failure,
    pub(crate) now: Option<Reading>,
    pub(crate) took: Took<'a>,
}

/// What an attempt took: its time, where anybody has looked at the clock, and all that a policy asked
/// for. Nothing is built for policies that ask for nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took<'a> {
    pub(crate) elapsed: Option<Duration>,
    pub(crate) measured: Option<&'a Measured>,
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
            frozen: false,
            piece: PieceState::default(),
            learning: Learning { moved: false, best: sizes.cap, settled: None },
            record: None,
            available_bytes: None,
        }
    }

    /// Keeps a record from now on, which the policy sees.
    pub(crate) fn keep(&mut self, record: Record) {
        self.record = Some(record);
    }

    /// Starts from what an earlier call learned, if any; the policy chooses the first step.
    #[inline]
    pub(crate) fn start_from(&mut self, known: Option<Known>, policy: &impl Policy, now: Option<&Measured>) {
        if let Some(Known { settled, bounds }) = known {
            self.step = self.sizes.fit(settled);
            self.bounds = bounds;
            self.learning.best = self.step;
        }
        if !self.is_done() {
            self.advance(policy, self.piece().len(), Took { elapsed: None, measured: now });
        }
    }

    /// The size known to work, when the policy starts beyond it.
    pub(crate) fn probes_from(&self) -> Option<usize> {
        Some(self.learning.best).filter(|&best| best < self.step)
    }

    /// Keeps the step as it is.
    pub(crate) fn freeze(&mut self) {
        self.frozen = true;
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

    pub(crate) fn record(&self) -> Option<Record> {
        self.record
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
    pub(crate) fn succeeded(&mut self, policy: &impl Policy, took: Took<'_>) -> Option<usize> {
        let size = self.piece().len();
        let works = took.measured.is_none_or(|measured| self.note(size, measured));
        if works {
            self.works(size);
        } else {
            self.bounds.failed(size);
        }
        self.position += size;
        if self.single {
            self.end = self.position;
        }
        self.piece = PieceState::default();
        if self.is_done() || self.frozen {
            return None;
        }
        self.advance(policy, size, took)
    }

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

    /// What had settled has failed after all; a total failure must not pin later calls to it.
    pub(crate) fn forget(&mut self) {
        self.learning.settled = None;
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
        let &Failed { failure, now, took } = failed;
        let size = self.piece().len();
        if let (Some(record), Some(measured)) = (&mut self.record, took.measured) {
            let failure = recording::Failure::at(size, self.bounds);
            recording::failed(record, failure, measured, self.available_bytes);
        }
        self.bounds.failed(size);
        self.forget();
        if !retryable.out_of_memory {
            return Verdict::GiveUp(self.why_not());
        }
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
        Verdict::Shrink(self.step)
    }

    fn why_not(&self) -> &'static str {
        if self.piece.attempts >= self.max_attempts {
            "max_attempts is reached"
        } else {
            "no smaller size is allowed"
        }
    }

    /// Asks the policy for the next step; returns it when it differs. `size` is the attempt just
    /// made, or the one that would be made first.
    #[inline]
    fn advance(&mut self, policy: &impl Policy, size: usize, took: Took<'_>) -> Option<usize> {
        if let Some(measured) = took.measured {
            self.available_bytes = measured.available_bytes;
        }
        let next = self.sizes.fit(policy.advance(&self.evidence(size, took)));
        let changed = (next != self.step).then_some(next);
        self.step = next;
        self.learning.moved |= policy.measures().anything() && changed.is_some();
        changed
    }

    #[inline]
    fn works(&mut self, size: usize) {
        self.bounds.succeeded(size);
        if size == self.step && (self.learning.moved || size > self.learning.best) {
            self.learning.best = size;
            self.learning.settled = Some(size);
        }
    }

    #[inline]
    fn evidence(&self, size: usize, Took { elapsed, measured }: Took<'_>) -> Evidence {
        let Sizes { floor, cap, multiple_of } = self.sizes;
        let (remaining, bounds, step) = (self.end - self.position, self.bounds, self.step);
        let evidence =
            Evidence { step, elapsed, remaining, bounds, floor, cap, multiple_of, ..Evidence::new(size) };
        match (self.record, measured) {
            (Some(record), Some(&Measured { available_bytes, counts_bytes, peak_bytes, .. })) => {
                Evidence { available_bytes, counts_bytes, peak_bytes, record, ..evidence }
            }
            _ => evidence,
        }
    }
}

/// Less free than was asked for, or less than a tenth of the whole.
fn memory_is_low(now: Reading, failure: &Failure) -> bool {
    failure.requested_bytes.is_some_and(|requested| now.free_bytes < requested)
        || now.free_bytes < now.total_bytes.div_ceil(10)
}
