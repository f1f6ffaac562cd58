//! The escalation ladder: the same size again while something may have changed, a smaller size, and
//! in the end another memory.
//!
//! Which rungs are there is asked outside; the order, and that each is taken once, is decided here.

use super::{Failed, Learning, Machine, PieceState, Verdict};
use crate::ladder::Rung;
use crate::policy::{Bounds, Policy};

/// A set of rungs, as few bytes as a call must carry along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rungs(u8);

impl Rungs {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const TRANSIENT: Self = Self(1);
    pub(crate) const RELEASE: Self = Self(1 << 1);
    pub(crate) const ALONE: Self = Self(1 << 2);
    pub(crate) const HOOKS: Self = Self(1 << 3);
    pub(crate) const FALLBACK: Self = Self(1 << 4);
    /// Before the fallback: the failure goes through, because the attempt around waits for others then.
    pub(crate) const GIVE_WAY: Self = Self(1 << 5);

    #[inline]
    pub(crate) fn has(self, rung: Self) -> bool {
        self.0 & rung.0 != 0
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn with(self, rung: Self, there: bool) -> Self {
        if there { Self(self.0 | rung.0) } else { self }
    }

    fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    fn within(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }
}

/// Rungs that try the same size again, the cheapest first.
const SAME_SIZE: [(Rungs, Rung); 3] =
    [(Rungs::RELEASE, Rung::Release), (Rungs::ALONE, Rung::Alone), (Rungs::HOOKS, Rung::Hooks)];

impl Machine {
    /// Which rungs are there for the coming attempt, as far as can be said before it begins.
    pub(crate) fn expect(&mut self, there: Rungs) {
        self.expected = there.without(self.piece.spent);
    }

    /// Whether the coming attempt is made once more, alone, if others are in its way.
    pub(crate) fn can_be_alone_yet(&self) -> bool {
        self.piece.attempts + 1 < self.max_attempts && !self.piece.spent.has(Rungs::ALONE)
    }

    /// Whether nothing smaller than the coming attempt can be tried.
    pub(crate) fn is_at_the_floor(&self) -> bool {
        self.is_alone() || !self.can_be_smaller()
    }

    /// The call has fallen back.
    pub(crate) fn has_fallen_back(&self) -> bool {
        self.fallen
    }

    /// The coming attempt, or the one that runs, works in another memory: all that come do so, or this
    /// item alone.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.fallen || self.packing.as_ref().is_some_and(|packing| packing.elsewhere)
    }

    /// The next rung that tries the same size again, which is spent with that.
    pub(super) fn same_size(&mut self, there: Rungs) -> Option<Rung> {
        if !self.attempts_left() {
            return None;
        }
        let left = there.without(self.piece.spent);
        let &(rung, name) = SAME_SIZE.iter().find(|(rung, _)| left.has(*rung))?;
        self.piece.spent = self.piece.spent.with(rung, true);
        Some(name)
    }

    /// Another size is another question; but hooks that have given all they had have nothing more.
    pub(super) fn renew_rungs(&mut self) {
        self.piece.spent = self.piece.spent.within(Rungs::HOOKS);
    }

    /// The hooks gave nothing back, so the same size would only fail again: goes on below them.
    ///
    /// `None` where only one more attempt can say how the piece ends, because the failure is gone.
    pub(crate) fn hooks_gave_nothing(
        &mut self,
        policy: &impl Policy,
        failed: &Failed<'_>,
    ) -> Option<Verdict> {
        let at_the_floor = self.is_at_the_floor();
        if at_the_floor && (!failed.there.has(Rungs::FALLBACK) || failed.there.has(Rungs::GIVE_WAY)) {
            return None;
        }
        Some(if at_the_floor { self.fall_back(failed) } else { self.take_less(policy, failed) })
    }

    /// Begins anew from the first size, in another memory; an item that failed alone does so for itself.
    pub(super) fn fall_back(&mut self, failed: &Failed<'_>) -> Verdict {
        self.fails(self.size(), failed);
        (self.piece.spent, self.expected) = (Rungs::NONE, Rungs::NONE);
        if self.is_alone() {
            return self.fall_back_alone();
        }
        self.learn_nothing();
        (self.step, self.bounds, self.measurements) = (self.sizes.cap, Bounds::default(), None);
        self.start_anew();
        Verdict::FallBack(self.coming_size())
    }

    /// From here on the work is not where sizes are remembered for.
    pub(crate) fn learn_nothing(&mut self) {
        self.fallen = true;
        self.learning = Learning { moved: false, best: usize::MAX, settled: None };
    }
}

impl PieceState {
    pub(super) fn spend(&mut self, rung: Rungs) {
        self.spent = self.spent.with(rung, true);
    }
}
