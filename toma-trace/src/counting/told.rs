//! Events that threads record in a ring.

use super::names::NameId;
use super::ring::Words;
use crate::lines::LineId;

/// One event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A frame begins at a line.
    Enters(LineId),
    Mark(LineId),
    /// A block was left, and this line encloses it.
    LeftTo(LineId),
    Leaves,
    /// An operator, with the number that it shares with its autograd node.
    Operator(NameId, Node),
    Node(NameId, Node),
    Phase(NameId),
    Attempt(NameId),
    /// Ends the scope that began last and is no frame.
    Ends,
    /// The next block of this thread belongs to the storage that was born at this moment.
    Returns(u32),
    Born(Memory),
    Died(Memory),
}

/// The number that an operator shares with its autograd node, including the thread of the operator.
///
/// 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node(pub u64);

/// Memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
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

impl Told {
    pub(super) fn words(self, thread: u32) -> Words {
        let (kind, half, [second, third]) = match self {
            Self::Enters(line) => (0, line.0, [0, 0]),
            Self::Mark(line) => (1, line.0, [0, 0]),
            Self::LeftTo(line) => (2, line.0, [0, 0]),
            Self::Leaves => (3, 0, [0, 0]),
            Self::Operator(name, node) => (4, name.0, [node.0, 0]),
            Self::Node(name, node) => (5, name.0, [node.0, 0]),
            Self::Phase(name) => (6, name.0, [0, 0]),
            Self::Attempt(name) => (7, name.0, [0, 0]),
            Self::Ends => (8, 0, [0, 0]),
            Self::Born(memory) => (9, memory.half(), [memory.address, memory.bytes]),
            Self::Died(memory) => (10, memory.half(), [memory.address, memory.bytes]),
            Self::Returns(moment) => (11, moment, [0, 0]),
        };
        [kind | u64::from(thread) << KIND & u64::from(u32::MAX) | u64::from(half) << THREAD, second, third]
    }

    /// Returns the thread and its event.
    pub(super) fn read([first, second, third]: Words) -> (u32, Self) {
        let [half, low] = [first >> THREAD, first].map(lower);
        let (line, name, node) = (LineId(half), NameId(half), Node(second));
        let memory = || Memory::read(half, second, third);
        let told = match low & ((1 << KIND) - 1) {
            0 => Self::Enters(line),
            1 => Self::Mark(line),
            2 => Self::LeftTo(line),
            3 => Self::Leaves,
            4 => Self::Operator(name, node),
            5 => Self::Node(name, node),
            6 => Self::Phase(name),
            7 => Self::Attempt(name),
            8 => Self::Ends,
            9 => Self::Born(memory()),
            10 => Self::Died(memory()),
            _ => Self::Returns(half),
        };
        (low >> KIND, told)
    }
}

/// The lower half of a word.
pub(super) fn lower(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default()
}

impl Memory {
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
    fn what_is_told_is_read() {
        let memory = |operator| Memory { device: 255, address: u64::MAX, bytes: 1 << 60, operator };
        for told in [
            Told::Enters(LineId(7)),
            Told::Mark(LineId(u32::MAX)),
            Told::LeftTo(LineId(0)),
            Told::Leaves,
            Told::Operator(NameId(3), Node(u64::MAX)),
            Told::Node(NameId(9), Node(1 << 40 | 5)),
            Told::Phase(NameId(1)),
            Told::Attempt(NameId(2)),
            Told::Ends,
            Told::Returns(u32::MAX),
            Told::Born(memory(NameId(11))),
            Told::Died(memory(NameId::NONE)),
        ] {
            assert_eq!(Told::read(told.words(12345)), (12345, told));
        }
    }
}
