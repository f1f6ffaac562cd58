//! The loop as a plain state machine: what to try next, and what came back.
//!
//! Nothing here runs user code except the pure policy, reads a clock, or touches shared state, so
//! every rule of the loop can be tested against a script of failures.

mod failing;
mod isolating;
mod ladder;
mod measured;
mod packing;

use std::ops::Range;
use std::time::Duration;

pub(crate) use self::ladder::Rungs;
use self::packing::Packing;
use super::costs::Costs;
use super::meter::Measured;
use super::sizes::Sizes;
use crate::classify::Failure;
use crate::ladder::Rung;
use crate::memory::Reading;
use crate::observe::Reason;
use crate::policy::{Bounds, Evidence, Measurements, Policy};
use crate::shield::Retryable;

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
    /// The work goes on in another memory.
    fallen: bool,
    /// Rungs of the ladder that the coming attempt has left; without a ladder there are none.
    expected: Rungs,
    piece: PieceState,
    learning: Learning,
    /// What is measured, where the policy asks for anything.
    measurements: Option<Measurements>,
    /// What was available when the step in force was chosen, where the policy asks for it.
    available_bytes: Option<u64>,
    /// What there is besides where sizes are costs. In a box and behind one question, so that calls
    /// that count their items need not carry it along.
    packing: Option<Box<Packing>>,
}

/// Where a piece ends: a function of position and step.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    end: usize,
    /// In units of the step.
    size: usize,
}

/// What is known from earlier calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) settled: usize,
    pub(crate) bounds: Bounds,
    /// Whether to start at twice the size, if the policy does not choose another by itself.
    pub(crate) probes: bool,
}

/// The piece that is being tried, and what happened on it; starts anew with each piece.
#[derive(Debug, Default)]
struct PieceState {
    cut: Cut,
    attempts: usize,
    /// Rungs that have had their attempt at this size.
    spent: Rungs,
}

/// What this call has learned: the step in force after a shrink settles once it has succeeded, and
/// without a failure only a step beyond all that worked before, so that no later call is lowered.
/// A step that a measuring policy has changed settles in any case: it has its reasons.
#[derive(Clone, Copy, Debug)]
struct Learning {
    moved: bool,
    /// The largest step known to work: where the call started, then what it settled.
    best: usize,
    settled: Option<usize>,
}

/// How much work there is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One piece of whatever size succeeds.
    Batch,
    /// This many items, piece by piece.
    Items(usize),
    /// Items of different costs, in which sizes are counted.
    Packed(Costs),
}

/// A failed attempt: the failure, the memory once it had failed, what was measured, and the rungs of
/// the ladder there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed<'a> {
    pub(crate) failure: &'a Failure,
    pub(crate) now: Option<Reading>,
    pub(crate) took: Took<'a>,
    pub(crate) there: Rungs,
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
    Again(Rung),
    /// Try this smaller size.
    Shrink(usize),
    /// Try so many items at most: their size cannot be any smaller.
    Cut(usize),
    /// Begin anew from this size, in another memory.
    FallBack(usize),
    /// The item failed alone: try it in another memory, and go on with the others here.
    FallBackAlone { index: usize, cost: usize },
    /// Let the failure through, for this reason.
    GiveUp(Reason),
    /// The item failed alone: leave it out, and go on with the others.
    SetAside { index: usize, cost: usize },
}

impl Machine {
    #[inline]
    pub(crate) fn new(items: Option<usize>, sizes: Sizes, max_attempts: usize) -> Self {
        Self {
            sizes,
            position: 0,
            end: items.unwrap_or(usize::MAX),
            step: sizes.cap,
            bounds: Bounds::default(),
            max_attempts,
            single: items.is_none(),
            frozen: false,
            fallen: false,
            expected: Rungs::NONE,
            piece: PieceState::default(),
            learning: Learning { moved: false, best: sizes.cap, settled: None },
            measurements: None,
            available_bytes: None,
            packing: None,
        }
    }

    /// Keeps a record from now on, which the policy sees.
    pub(crate) fn keep(&mut self, measurements: Measurements) {
        self.measurements = Some(measurements);
    }

    /// Starts from what an earlier call learned, if any; the policy chooses the first step.
    #[inline]
    pub(crate) fn start_from(&mut self, known: Option<Known>, policy: &impl Policy, now: Option<&Measured>) {
        if let Some(Known { settled, bounds, .. }) = known {
            self.step = self.sizes.fit(settled);
            self.bounds = bounds;
            self.learning.best = self.step;
        }
        if !self.is_done() {
            let first = self.coming();
            self.advance(policy, first.size, Took { elapsed: None, measured: now });
        }
        let stays = self.step == self.learning.best && !policy.needs().anything();
        if let Some(known) = known.filter(|known| known.probes && stays) {
            self.step = self.sizes.fit(known.settled.saturating_mul(2));
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

    /// Cuts the piece of the coming attempt.
    #[inline]
    pub(crate) fn cut(&mut self) -> Range<usize> {
        self.piece.cut = self.coming();
        self.piece()
    }

    /// The coming piece: the one place that turns position and step into an end.
    #[inline]
    fn coming(&self) -> Cut {
        if let Some(packing) = &self.packing {
            return packing.cut_at(self.position, self.step);
        }
        let size = self.step.min(self.end - self.position);
        Cut { end: self.position + size, size }
    }

    /// The items of the attempt.
    #[inline]
    pub(crate) fn piece(&self) -> Range<usize> {
        self.position..self.piece.cut.end
    }

    /// The size of the attempt.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.piece.cut.size
    }

    /// The size of the attempt that comes, before it is cut.
    pub(crate) fn coming_size(&self) -> usize {
        self.coming().size
    }

    /// What is left, in units of the step.
    #[inline]
    fn left(&self) -> usize {
        self.packing.as_ref().map_or(self.end - self.position, |packing| packing.cost_from(self.position))
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.position == self.end
    }

    /// Items that are dealt with: those that succeeded, and those left out.
    #[inline]
    pub(crate) fn position(&self) -> usize {
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

    pub(crate) fn measurements(&self) -> Option<Measurements> {
        self.measurements
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
        let (is_alone, can_be_smaller) = if self.packing.is_some() {
            self.packed_retryable()
        } else {
            (false, self.sizes.can_shrink(self.size()))
        };
        let goes_on = !is_alone && can_be_smaller || !self.expected.is_empty();
        Retryable {
            out_of_memory: attempts_left && goes_on || is_alone,
            transient: attempts_left && (goes_on || !self.piece.spent.has(Rungs::TRANSIENT)) || is_alone,
        }
    }

    /// Whether another attempt is allowed at this piece, once one has failed.
    fn attempts_left(&self) -> bool {
        self.piece.attempts < self.max_attempts
    }

    /// The piece succeeded: moves on, and returns the new step when the policy changes it.
    #[inline]
    pub(crate) fn succeeded(&mut self, policy: &impl Policy, took: Took<'_>) -> Option<usize> {
        if self.packing.is_some() {
            return self.packed_succeeded(policy, took);
        }
        let Cut { end, size } = self.piece.cut;
        let works = took.measured.is_none_or(|measured| self.note(size, measured));
        if works {
            self.works(size);
        } else {
            self.bounds.failed(size);
        }
        if self.single && took.measured.is_some() {
            self.look_ahead(policy, size, took);
        }
        self.move_to(end);
        if self.single {
            self.end = self.position;
        }
        if self.is_done() || self.frozen {
            return None;
        }
        self.advance(policy, size, took)
    }

    /// The next piece starts here.
    #[inline]
    fn move_to(&mut self, position: usize) {
        self.position = position;
        if self.piece.attempts > 0 {
            (self.piece.attempts, self.piece.spent) = (0, Rungs::NONE);
        }
    }

    /// What had settled has failed after all; a total failure must not pin later calls to it.
    pub(crate) fn forget(&mut self) {
        self.learning.settled = None;
    }

    /// Asks the policy for the next step; returns it when it differs. `size` is the attempt just
    /// made, or the one that would be made first.
    #[inline]
    fn advance(&mut self, policy: &impl Policy, size: usize, took: Took<'_>) -> Option<usize> {
        if let Some(measured) = took.measured {
            self.available_bytes = measured.available_bytes;
        }
        let proposal = policy.advance(&self.evidence(size, took));
        if proposal == self.step {
            // What most policies answer always, and then nothing of all this is left to be done.
            return None;
        }
        let next = self.short_of_doubts(self.sizes.fit(proposal));
        let changed = (next != self.step).then_some(next);
        self.step = next;
        self.learning.moved |= policy.needs().anything() && changed.is_some() && !self.fallen;
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
        let (remaining, bounds, step) = (self.left(), self.bounds, self.step);
        let evidence =
            Evidence { step, elapsed, remaining, bounds, floor, cap, multiple_of, ..Evidence::new(size) };
        match (self.measurements, measured) {
            (Some(measurements), Some(&Measured { available_bytes, counts_bytes, peak_bytes, .. })) => {
                Evidence { available_bytes, counts_bytes, peak_bytes, measurements, ..evidence }
            }
            _ => evidence,
        }
    }
}
