//! The owner of a block, in the one word that an allocator keeps with the block.

use super::packed::lower;
use crate::lines::{Born, LineId};

/// Owner of a block. The highest 13 bits are the recording, one bit is set if an optimizer ran, 18 bits are the line
/// plus 1, and the lowest 32 are the moment of its birth.
///
/// The word 0 is a block of no recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(pub u64);

const RECORDING: u32 = 51;
const OPTIMIZER: u32 = 50;
const LINE: u32 = 32;
const RECORDINGS: u64 = (1 << (u64::BITS - RECORDING)) - 2;
const MOST_LINES: u64 = (1 << (OPTIMIZER - LINE)) - 1;

/// Owner of a block that is no tensor of the program.
pub(super) const EXEMPT: Owner = Owner(u64::MAX);

impl Owner {
    pub(super) fn new(recording: u32, born: Born, moment: u32, is_in_optimizer: bool) -> Self {
        // Beyond 262,143 lines, a block is in no line.
        let line = born.line().map_or(0, |line| u64::from(line.0) + 1);
        let line = if line > MOST_LINES { 0 } else { line };
        let optimizer = u64::from(is_in_optimizer) << OPTIMIZER;
        Self(recorded(recording) << RECORDING | optimizer | line << LINE | u64::from(moment))
    }

    /// Returns the line it was born in, unless it is older than the recording.
    pub(super) fn born(self, recording: u32) -> Option<Born> {
        let line = self.0 >> LINE & MOST_LINES;
        let line = line.checked_sub(1).and_then(|line| u32::try_from(line).ok());
        self.is_of(recording).then_some(Born(line.map(LineId)))
    }

    pub(super) fn is_of(self, recording: u32) -> bool {
        self.0 >> RECORDING == recorded(recording)
    }

    pub(super) fn is_of_optimizer(self) -> bool {
        self.0 >> OPTIMIZER & 1 == 1
    }

    /// Returns the moment of its birth among those of the recording, without the highest bits.
    pub(super) fn moment(self) -> u32 {
        lower(self.0)
    }
}

/// Maps a recording to 1 to 8,190, so that no owner equals 0 or `EXEMPT`. A block that outlives so many recordings is
/// taken for one of a later recording; programs that clear at each step should not get there soon.
fn recorded(recording: u32) -> u64 {
    u64::from(recording) % RECORDINGS + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_knows_recording_line_moment_and_optimizer() {
        for recording in [1, 8189, 8190, 8191, u32::MAX] {
            for (line, optimizer) in [(None, false), (Some(LineId(0)), true), (Some(LineId(262_141)), false)]
            {
                let owner = Owner::new(recording, Born(line), u32::MAX, optimizer);
                assert_eq!(owner.born(recording), Some(Born(line)));
                assert_eq!(
                    [recording - 1, recording.wrapping_add(1022)].map(|other| owner.born(other)),
                    [None; 2]
                );
                assert_eq!((owner.moment(), owner.is_of_optimizer()), (u32::MAX, optimizer));
                assert!(owner != EXEMPT && owner.0 != 0);
            }
        }
        let beyond = Owner::new(1, Born(Some(LineId(262_142 + 1))), 0, false);
        assert_eq!(beyond.born(1), Some(Born(None)));
    }
}
