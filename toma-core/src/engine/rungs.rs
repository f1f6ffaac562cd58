//! The rungs of the ladder that a call has: which there are is asked outside, the order is the machine's.
//!
//! # Why
//!
//! The order is pure, and the rungs are asked for outside: once before an attempt, and once after a
//! failure. The first answer is the promise to the panic hook, the second the verdict. So the whole ladder
//! runs against a twin in the tests.

use crate::device::Rung;

/// A set of rungs, as few bytes as a call must carry along.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rungs(u8);

impl Rungs {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const TRANSIENT: Self = Self(1);
    pub(crate) const RELEASE: Self = Self(1 << 1);
    pub(crate) const EXCLUSIVE: Self = Self(1 << 2);
    pub(crate) const HOOKS: Self = Self(1 << 3);
    pub(crate) const FALLBACK: Self = Self(1 << 4);
    /// The failure goes through, because an enclosing attempt will be retried with the device to itself.
    pub(crate) const GIVE_WAY: Self = Self(1 << 5);
    pub(crate) const LEANER: Self = Self(1 << 6);
    /// They are spent for the piece, and not for the size: what has given all it had has nothing more at another size.
    pub(crate) const ONCE_A_PIECE: Self = Self(Self::HOOKS.0 | Self::LEANER.0);

    /// Rungs that try the same size again, the cheapest first.
    ///
    /// Released memory costs nothing, and a wait ends; a leaner plan costs time from then on, which other users of the
    /// device are no reason for. But it costs this call alone, while hooks take from the whole process.
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
