//! Memory that pieces of a step need, one after the other.

use super::line::{Envelope, Line};

/// Bytes that the pieces of a step take from one place, in addition to those from before the first piece.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    /// Levels of the first piece.
    first: Envelope,
    /// Bytes that the first piece leaves behind: outputs, first gradients.
    left: Line,
    /// Levels of a further piece, in addition to the bytes that earlier pieces left.
    further: Envelope,
    /// Bytes that a further piece leaves behind.
    adds: Line,
}

/// Pieces of one size that run one after the other.
#[derive(Clone, Copy)]
pub(super) struct PieceRun<'a> {
    pub(super) pieces: &'a Pieces,
    /// The size of each piece, as a line over another number.
    pub(super) size: Line,
    pub(super) count: u64,
}

impl Pieces {
    /// Builds the pieces from the levels before the second piece and those of the second piece. Without a second piece,
    /// further ones are assumed to be like the first.
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

    /// Returns the lines of which the highest counts, as lines over the number that the runs' sizes depend on: the
    /// first piece, and the first and the last further piece of each run, on top of the bytes that earlier pieces left.
    /// A further piece may leave a negative number of bytes; many pieces together do not.
    pub(super) fn lines<'a>(runs: impl IntoIterator<Item = PieceRun<'a>>) -> impl Iterator<Item = Line> {
        let mut ground = None;
        runs.into_iter().filter(|run| run.count > 0).flat_map(move |PieceRun { pieces, size, count }| {
            let is_first = ground.is_none();
            let first = if is_first { pieces.first.lines() } else { &[] };
            let begin = ground.unwrap_or_else(|| pieces.left.over(size));
            let (adds, further) = (pieces.adds.over(size), count - u64::from(is_first));
            ground = Some(begin + adds.times(further));
            let last = (further >= 2).then(|| begin + adds.times(further - 1));
            let grounds = (further >= 1).then_some(begin).into_iter().chain(last);
            let later = grounds.flat_map(move |ground| {
                pieces.further.lines().iter().map(move |line| ground + line.over(size))
            });
            first.iter().map(move |line| line.over(size)).chain(later)
        })
    }

    /// Returns the levels of the first piece.
    pub(super) fn first(&self) -> impl Iterator<Item = Line> {
        self.first.lines().iter().copied()
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
