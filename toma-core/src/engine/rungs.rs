//! Rungs of the ladder that are available to a call. Their order is the machine's; its caller finds out which exist.
//!
//! # Why
//!
//! The order is pure, because the available rungs are determined outside: once before an attempt, as the promise to
//! the panic hook, and once after a failure, for the decision. So tests run the whole ladder against a twin.

use crate::device::Rung;

/// A set of rungs, in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rungs(u8);

impl Rungs {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const TRANSIENT: Self = Self(1);
    pub(crate) const RELEASE: Self = Self(1 << 1);
    pub(crate) const EXCLUSIVE: Self = Self(1 << 2);
    pub(crate) const HOOKS: Self = Self(1 << 3);
    pub(crate) const FALLBACK: Self = Self(1 << 4);
    /// The failure is passed on, because an enclosing attempt will be retried with the device to itself.
    pub(crate) const GIVE_WAY: Self = Self(1 << 5);
    pub(crate) const LEANER: Self = Self(1 << 6);
    /// Rungs that are spent for the piece, not for the size: hooks and plans that have given all they had give
    /// nothing more at another size.
    pub(crate) const ONCE_A_PIECE: Self = Self(Self::HOOKS.0 | Self::LEANER.0);

    /// Rungs that try the same size again, the cheapest first.
    ///
    /// Releasing memory costs nothing, and a wait ends. A leaner plan costs time from then on, so contention alone is
    /// no reason for it. But it costs this call alone, while hooks take from the whole process.
    pub(crate) const SAME_SIZE: [(Self, Rung); 4] = [
        (Self::RELEASE, Rung::Release),
        (Self::EXCLUSIVE, Rung::Exclusive),
        (Self::LEANER, Rung::Leaner),
        (Self::HOOKS, Rung::Hooks),
    ];

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

    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) fn within(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }
}
