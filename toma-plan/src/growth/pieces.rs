//! What pieces of a step need, one after the other.

use std::ops::RangeInclusive;

use super::line::{Envelope, Line, largest};

/// What the pieces of a step take from one place, beyond what was there before the first.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    /// The levels of the first piece.
    first: Envelope,
    /// What it leaves behind: outputs, first gradients.
    left: Line,
    /// The levels of a further piece, beyond what earlier ones have left.
    further: Envelope,
    /// What a further piece leaves.
    adds: Line,
}

impl Pieces {
    /// From the levels before the second piece, and those of the second piece. Without a second piece, the
    /// further ones are taken to be like the first.
    pub(super) fn of(first: &[Line], second: Option<&[Line]>) -> Self {
        let end = |levels: &[Line]| levels.last().copied().unwrap_or_default();
        let left = end(first);
        let over = |levels: &[Line], ground: Line| Envelope::of(levels.iter().map(|level| *level - ground));
        let first = over(first, Line::default());
        match second {
            None => Self { further: first.clone(), first, left, adds: left },
            Some([]) => Self { first, left, further: over(&[], left), adds: Line::default() },
            Some(second) => Self { first, left, further: over(second, left), adds: end(second) - left },
        }
    }

    /// The most bytes that live while so many pieces of a size run one after the other.
    pub(super) fn needs(&self, size: u64, pieces: u64) -> u64 {
        self.lines(pieces).map(|line| line.bytes_at(size)).max().unwrap_or(0)
    }

    /// The largest of some sizes at which so many pieces need at most `bytes`.
    pub(super) fn largest(&self, bytes: u64, pieces: u64, sizes: RangeInclusive<u64>) -> Option<u64> {
        largest(self.lines(pieces), bytes, sizes)
    }

    /// The lines of which the highest counts: the first piece, what it leaves and a further piece, and the
    /// same after all pieces between. What a further piece leaves may be less than nothing; not so what many
    /// leave.
    fn lines(&self, pieces: u64) -> impl Iterator<Item = Line> {
        let between = (pieces >= 3).then(|| self.adds.times(pieces - 2));
        let grounds = (pieces >= 2).then_some(Line::default()).into_iter().chain(between);
        let later = grounds
            .flat_map(move |ground| self.further.lines().iter().map(move |line| self.left + ground + *line));
        self.first.lines().iter().copied().chain(later)
    }

    pub(super) fn highest(&self, size: u64) -> Line {
        self.first.highest(size)
    }

    pub(super) fn left(&self) -> Line {
        self.left
    }

    pub(super) fn adds(&self) -> Line {
        self.adds
    }
}
