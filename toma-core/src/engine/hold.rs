//! The hold of an attempt on its device.

use crate::device::{Device, Seen, Turn};
use crate::nesting::Inside;

/// A turn on the device, its own or that of an enclosing attempt.
#[derive(Debug)]
pub(super) enum Hold {
    /// The call has no device, or works in fallback.
    None,
    /// An enclosing attempt has a turn on the device.
    Enclosed(Device, Seen),
    Turn(Turn),
}

impl Hold {
    /// Until the guard is dropped, loops on this thread do not wait for the turn, whose attempt has not begun.
    #[inline]
    pub(super) fn aside(&self) -> Inside {
        let Self::Turn(turn) = self else { return Inside::of(None) };
        Inside::of(Some(&turn.around()))
    }

    /// True if others used the device while the attempt ran.
    pub(super) fn is_contended(&self) -> bool {
        match self {
            Self::None => false,
            Self::Enclosed(device, seen) => device.has_contention(*seen),
            Self::Turn(turn) => turn.has_contention(),
        }
    }

    pub(super) fn is_exclusive(&self) -> bool {
        matches!(self, Self::Turn(turn) if turn.is_exclusive())
    }

    /// True if a loop inside gave way. Then an attempt that fails is redone, whatever its error.
    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        matches!(self, Self::Turn(turn) if turn.is_marked())
    }
}
