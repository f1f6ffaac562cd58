//! The compact form in which threads write events into a ring.
//!
//! # Why
//!
//! An operator takes a microsecond, so an event may take a few nanoseconds: names, lines and devices are numbers, and
//! an event is three words. [`replay`](super::replay) unpacks them into [`Event`](crate::Event)s.

use super::names::NameId;
use super::ring::Words;
use crate::event::{Mark, Node};
use crate::lines::LineId;

/// One event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packed {
    Mark(Mark<LineId>),
    Operator(NameId, Node),
    Node(NameId, Node),
    Phase(NameId),
    Attempt(NameId),
    Ends,
    /// The next block of this thread belongs to the storage that was born at this moment.
    Fetches(u32),
    Born(PackedBlock),
    Died(PackedBlock),
}

/// Memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedBlock {
    pub(super) device: u8,
    pub(super) address: u64,
    pub(super) bytes: u64,
    /// Operator that the thread was in.
    pub(super) operator: NameId,
}

/// Bits of the first word: the kind in the lowest 8, the thread in the next 24.
const KIND: u32 = 8;
const THREAD: u32 = 32;
/// In the upper half of the first word: the device of a block in the highest 8 bits, the operator below.
const DEVICE: u32 = 24;

impl Packed {
    pub(super) fn words(self, thread: u32) -> Words {
        let (kind, half, [second, third]) = match self {
            Self::Mark(Mark::Enters(line)) => (0, line.0, [0, 0]),
            Self::Mark(Mark::Line(line)) => (1, line.0, [0, 0]),
            Self::Mark(Mark::LeftTo(line)) => (2, line.0, [0, 0]),
            Self::Mark(Mark::Leaves) => (3, 0, [0, 0]),
            Self::Operator(name, node) => (4, name.0, [node.0, 0]),
            Self::Node(name, node) => (5, name.0, [node.0, 0]),
            Self::Phase(name) => (6, name.0, [0, 0]),
            Self::Attempt(name) => (7, name.0, [0, 0]),
            Self::Ends => (8, 0, [0, 0]),
            Self::Born(block) => (9, block.half(), [block.address, block.bytes]),
            Self::Died(block) => (10, block.half(), [block.address, block.bytes]),
            Self::Fetches(moment) => (11, moment, [0, 0]),
        };
        [kind | u64::from(thread) << KIND & u64::from(u32::MAX) | u64::from(half) << THREAD, second, third]
    }

    /// Returns the thread and its event.
    pub(super) fn read([first, second, third]: Words) -> (u32, Self) {
        let [half, low] = [first >> THREAD, first].map(lower);
        let (line, name, node) = (LineId(half), NameId(half), Node(second));
        let block = || PackedBlock::read(half, second, third);
        let packed = match low & ((1 << KIND) - 1) {
            0 => Self::Mark(Mark::Enters(line)),
            1 => Self::Mark(Mark::Line(line)),
            2 => Self::Mark(Mark::LeftTo(line)),
            3 => Self::Mark(Mark::Leaves),
            4 => Self::Operator(name, node),
            5 => Self::Node(name, node),
            6 => Self::Phase(name),
            7 => Self::Attempt(name),
            8 => Self::Ends,
            9 => Self::Born(block()),
            10 => Self::Died(block()),
            _ => Self::Fetches(half),
        };
        (low >> KIND, packed)
    }
}

/// The lower half of a word.
pub(super) fn lower(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default()
}

impl PackedBlock {
    fn half(self) -> u32 {
        u32::from(self.device) << DEVICE | self.operator.0 & ((1 << DEVICE) - 1)
    }

    fn read(half: u32, address: u64, bytes: u64) -> Self {
        let operator = half & ((1 << DEVICE) - 1);
        let is_none = operator == (1 << DEVICE) - 1;
        let operator = if is_none { NameId::NONE } else { NameId(operator) };
        Self { device: (half >> DEVICE) as u8, address, bytes, operator }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_events_are_read() {
        let block = |operator| PackedBlock { device: 255, address: u64::MAX, bytes: 1 << 60, operator };
        for packed in [
            Packed::Mark(Mark::Enters(LineId(7))),
            Packed::Mark(Mark::Line(LineId(u32::MAX))),
            Packed::Mark(Mark::LeftTo(LineId(0))),
            Packed::Mark(Mark::Leaves),
            Packed::Operator(NameId(3), Node(u64::MAX)),
            Packed::Node(NameId(9), Node(1 << 40 | 5)),
            Packed::Phase(NameId(1)),
            Packed::Attempt(NameId(2)),
            Packed::Ends,
            Packed::Fetches(u32::MAX),
            Packed::Born(block(NameId(11))),
            Packed::Died(block(NameId::NONE)),
        ] {
            assert_eq!(Packed::read(packed.words(12345)), (12345, packed));
        }
    }
}
